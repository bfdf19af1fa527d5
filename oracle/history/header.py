"""The first line of a history: the drafter's configuration."""

from __future__ import annotations

from typing import Any

from frontier_oracle.oracle.history.values import Dirty, Json, integer, items, only, string
from frontier_oracle.oracle.spec import CacheGroup, Spec

FORMAT = "frontier-oracle/history"
VERSION = 1
MOST_K, MOST_PAGE = 1 << 10, 1 << 20
HEADER = ("format", "version", "spec", "engine")
SPEC = ("k", "steps", "hidden", "conv_width", "groups")


def read_header(data: Json) -> tuple[Spec, str]:
    """(spec, engine). Raises Dirty, or SpecError for a configuration outside the limits of the semantics."""
    if data.get("format") != FORMAT:
        raise Dirty(f'expected a header with "format": "{FORMAT}"')
    version = integer(data, "version")
    if not 1 <= version <= VERSION:
        raise Dirty(f"version {version}, this tool reads 1..{VERSION}: update it, or write the history again")
    only(data, HEADER)
    spec = data.get("spec")
    if not isinstance(spec, dict):
        raise Dirty('"spec" is missing: {"k": 4, "steps": 3, "hidden": "chain", "groups": [{"page_size": 16}]}')
    only(spec, SPEC)
    hidden = spec.get("hidden", "chain")
    if hidden not in ("chain", "target", "shifted", "previous", "single"):
        raise Dirty(f'"hidden" {hidden!r}, expected chain, target, shifted, previous or single')
    groups = [_group(g) for g in items(spec, "groups", [{"page_size": 16}])]
    if not groups:
        raise Dirty('"groups" is empty, expected at least one cache group')
    width, k = integer(spec, "conv_width", 1), integer(spec, "k")
    if max(k, width) > MOST_K:
        raise Dirty(f"k {k} and conv_width {width}: expected at most {MOST_K}")
    if integer(spec, "steps", 1) < 1:
        raise Dirty(f"steps {spec['steps']}: expected 1..k, or none for k-1")
    made = Spec(k, integer(spec, "steps", 0), hidden, width, tuple(groups))
    return made, string(data, "engine", "")


def _group(data: Any) -> CacheGroup:
    if not isinstance(data, dict):
        raise Dirty('a cache group is {"page_size": 16} or {"page_size": 16, "window": 128}')
    only(data, ("page_size", "window"))
    window = data.get("window")
    size = integer(data, "page_size")
    if size < 1 or (window is not None and integer(data, "window") < 1):
        raise Dirty(f"cache group {data}: page_size and window are at least 1")
    if size > MOST_PAGE:
        raise Dirty(f"page_size {size}: expected at most {MOST_PAGE} positions a page")
    return CacheGroup(size, window)
