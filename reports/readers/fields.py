"""Typed access to JSON: a value that is there and is not of its type is counted with its place, never just null."""

from __future__ import annotations

import json
from typing import Any

from frontier_oracle.reports.builder import BAD_VALUE, TraceBuilder, as_float, as_int

Record = dict[str, Any]
_LONGEST = 4096


class Fields:
    """The values of one object. Every getter takes names in order of preference and reads the first that is not null;
    absent and JSON's null are None without a word, and so is what is not of the type, but that is counted."""

    def __init__(self, record: Any, line: int, out: TraceBuilder, path: str = "") -> None:
        self.record: Record = record if isinstance(record, dict) else {}
        self.line, self.out, self.path = line, out, path

    def __bool__(self) -> bool:
        return bool(self.record)

    def __contains__(self, key: str) -> bool:
        return key in self.record

    def first(self, keys: tuple[str, ...]) -> tuple[str, Any]:
        key = next((key for key in keys if self.record.get(key) is not None), keys[0])
        return key, self.record.get(key)

    def wrong(self, key: str, value: Any, expected: str) -> None:
        """Count ``value`` of the field ``key`` as not being what was ``expected``."""
        self.out.problem(BAD_VALUE, self.line, f"{self.path}{key} is {shown(value)}, not {expected}; read as null")

    def number(self, *keys: str) -> float | None:
        key, value = self.first(keys)
        found = as_float(value)
        if found is None and value is not None:
            self.wrong(key, value, "a finite number")
        return found

    def integer(self, *keys: str) -> int | None:
        key, value = self.first(keys)
        found = as_int(value)
        if found is None and value is not None:
            self.wrong(key, value, "a whole number")
        return found

    def integers(self, *keys: str, scalar: bool = False) -> list[int] | None:
        """A list of whole numbers; with ``scalar`` one alone counts as a list of one."""
        key, value = self.first(keys)
        if isinstance(value, list) and set(map(type, value)) <= {int}:
            return value
        if scalar and as_int(value) is not None:
            value = [value]
        found: list[int] | None = self._list(key, value, as_int, "a whole number")
        return found

    def numbers(self, *keys: str) -> list[float] | None:
        key, value = self.first(keys)
        found: list[float] | None = self._list(key, value, as_float, "a finite number")
        return found

    def _list(self, key: str, value: Any, convert: Any, expected: str) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            self.wrong(key, value, "a list")
            return None
        found = [convert(item) for item in value]
        bad = [n for n, item in enumerate(found) if item is None]
        if bad:
            more = f" ({len(bad)} such elements; the whole list is dropped)" if len(bad) > 1 else " (the whole list)"
            self.wrong(f"{key}[{bad[0]}]", value[bad[0]], expected + more)
            return None
        return found

    def histogram(self, *keys: str) -> list[int] | None:
        """A list, or {"0": 1, "2": 4} as a dense list."""
        key, value = self.first(keys)
        if not isinstance(value, dict):
            return self.integers(key)
        counts: dict[int, int] = {}
        for name, count in value.items():
            number = as_int(count)
            if not name.isdecimal() or len(name) > 9 or int(name) > _LONGEST or number is None:
                self.wrong(f"{key}[{name[:40]!r}]", count, "a count of rounds under a small whole number")
                return None
            counts[int(name)] = number
        return [counts.get(j, 0) for j in range(max(counts) + 1)] if counts else None

    def text(self, *keys: str) -> str | None:
        """A string; an empty one is None."""
        key, value = self.first(keys)
        if value is not None and not isinstance(value, str):
            self.wrong(key, value, "text")
            return None
        return value or None

    def flag(self, *keys: str) -> bool | None:
        key, value = self.first(keys)
        if value is not None and not isinstance(value, bool):
            self.wrong(key, value, "true or false")
            return None
        return value

    def finish_reason(self, key: str = "finish_reason") -> str | None:
        """SGLang gives an object with a type, the others a string."""
        value = self.record.get(key)
        return self.section(key).text("type") if isinstance(value, dict) else self.text(key)

    def section(self, *path: str) -> Fields:
        """The nested object, empty if absent."""
        found: Fields = self
        for key in path:
            value = found.record.get(key)
            if value is not None and not isinstance(value, dict):
                found.wrong(key, value, "an object")
            found = Fields(value, self.line, self.out, f"{found.path}{key}.")
        return found

    def sections(self, key: str) -> list[Fields]:
        """The objects of a list; elements that are none are counted and left out."""
        value = self.record.get(key)
        if value is not None and not isinstance(value, list):
            self.wrong(key, value, "a list of objects")
            return []
        found = []
        for n, item in enumerate(value or ()):
            if isinstance(item, dict):
                found.append(Fields(item, self.line, self.out, f"{self.path}{key}[{n}]."))
            else:
                self.wrong(f"{key}[{n}]", item, "an object")
        return found

    def name(self, *keys: str) -> str:
        """What names the request: text or a whole number, else its line."""
        key, value = self.first(keys)
        if isinstance(value, str) and value or isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        if value is not None:
            self.wrong(key, value, "an id (text or a whole number)")
        return f"line {self.line}"


def shown(value: Any) -> str:
    """A value as JSON, cut short."""
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        text = type(value).__name__
    return text if len(text) <= 40 else text[:37] + "..."
