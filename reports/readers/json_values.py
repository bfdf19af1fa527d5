"""JSON values out of lines, and the records within a document."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from frontier_oracle.reports.readers import JSON_READERS


def parse(line: bytes) -> Any:
    """The JSON value of a line, or a string that says why there is none (a JSON string is no record either)."""
    text = line.strip().removeprefix(b"\xef\xbb\xbf").removeprefix(b"data: ")
    try:
        value = json.loads(text)
        if b"\\ud" in text.lower():  # half a surrogate pair is no text, and no file could be written with it
            value = json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
    except RecursionError:
        return "nested too deeply"
    except (ValueError, UnicodeDecodeError) as error:
        return f"not JSON ({str(error)[:120]})"
    return "a bare string" if isinstance(value, str) else value


def nested(value: Any, depth: int) -> Iterator[dict[str, Any]]:
    """Records in a list, or in the lists of an object, that some reader recognises; of a list with such a record,
    every object, so that the others are counted."""
    if depth < 0:
        return
    items = value if isinstance(value, list) else list(value.values()) if isinstance(value, dict) else []
    known = [isinstance(item, dict) and any(reader().recognise(item) for reader in JSON_READERS) for item in items]
    of_records = isinstance(value, list) and any(known)
    for item, recognised in zip(items, known, strict=True):
        if recognised or (of_records and isinstance(item, dict)):
            yield item
        elif of_records:
            yield {"": item}
        elif isinstance(item, (list, dict)):
            yield from nested(item, depth - 1)
