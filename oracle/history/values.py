"""Values of a history's lines: each of its type and shape, or one line that says what was expected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from frontier_oracle.oracle.spec import Spec

I64 = NDArray[np.int64]
Json = dict[str, Any]


class Dirty(ValueError):
    """What is wrong with a line, without its place."""


def only(data: Json, known: tuple[str, ...]) -> None:
    strange = sorted(set(data) - set(known))
    if strange:
        raise Dirty(f"unknown field {', '.join(map(repr, strange))}, known here are {', '.join(known)}")


def _value(data: Json, key: str, kind: type, default: Any, convert: Callable[[Any], Any]) -> Any:
    if key not in data and default is not None:
        return default
    if type(data.get(key)) is not kind:
        raise Dirty(f'"{key}" is {data.get(key)!r}, expected {kind.__name__}' if key in data else f'"{key}" is missing')
    return convert(data[key])


def integer(data: Json, key: str, default: int | None = None) -> int:
    return int(_value(data, key, int, default, int))


def string(data: Json, key: str, default: str | None = None) -> str:
    return str(_value(data, key, str, default, str))


def items(data: Json, key: str, default: list[Any] | None = None) -> list[Any]:
    return list(_value(data, key, list, default, list))


def name_of(data: Json) -> str:
    name = string(data, "request")
    if not name:
        raise Dirty('"request" is empty, expected a name; a padded row is {"request": null}')
    return name


def array_of(value: Any, what: str, shape: tuple[int | None, ...], kind: str, expected: str) -> NDArray[Any]:
    """An array of a shape (None: any length). kind: numpy's, "i" or "b"."""
    lengths = "x".join("?" if n is None else str(n) for n in shape)
    try:
        array = np.array(value)
    except (ValueError, OverflowError):
        raise Dirty(f"{what} is ragged, expected {expected}, shape {lengths}") from None
    if array.size == 0 and array.ndim == len(shape):
        array = array.astype(np.int64 if kind == "i" else bool)
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype.kind != kind or not fits or (kind == "i" and _holds_bool(value)):
        got = "x".join(map(str, array.shape)) or "a single value"
        mixed = " and bool" if array.dtype.kind == "i" and _holds_bool(value) else ""
        raise Dirty(f"{what} is {got} of {array.dtype}{mixed}, expected {expected}, shape {lengths}")
    return array


def _holds_bool(value: Any) -> bool:
    """numpy takes true among integers for 1."""
    return isinstance(value, bool) or (isinstance(value, list) and any(map(_holds_bool, value)))


def integers(value: Any, what: str, shape: tuple[int | None, ...]) -> I64:
    return array_of(value, what, shape, "i", "integers of 64 bits").astype(np.int64)


def token_ids(value: Any, what: str, shape: tuple[int | None, ...]) -> I64:
    """Token ids, which are int32 end to end (S10)."""
    array = integers(value, what, shape)
    if (np.abs(array) >= 1 << 31).any():
        raise Dirty(f"{what} holds a number that is no int32, as token ids are (S10)")
    return array


def between(value: Any, what: str, least: int, most: int) -> I64:
    array = integers(value, what, (None,))
    if not least <= len(array) <= most:
        raise Dirty(f"{what} has {len(array)} values, expected {least}..{most}")
    return array


def by_group(value: Any, what: str, spec: Spec, shape: tuple[int | None, ...]) -> tuple[I64, ...]:
    """One array a cache group."""
    if not isinstance(value, list) or len(value) != len(spec.groups):
        raise Dirty(f"{what}: expected a list with one entry for each of {len(spec.groups)} cache groups")
    arrays = tuple(integers(one, what, shape) for one in value)
    if any((array < 0).any() for array in arrays):
        raise Dirty(f"{what} holds a number below 0; a row that stores nothing has a location on page 0")
    return arrays
