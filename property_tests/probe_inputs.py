"""One model call's inputs, made safe to compute with: what a system passes may be of any dtype, shape or range.

Every violation becomes a sentence that names the field, and the call carries on with cast, fitted and clamped values:
the probe must survive any system in order to say what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import ForwardInputs

Report = Callable[[str], None]
INDEX_TYPES = (torch.int32, torch.int64)


@dataclass(frozen=True)
class CleanInputs:
    """int64 tensors of the right shapes, values as passed (not clamped). ``hidden`` keeps the configured dtype."""

    depth: int
    input_ids: Tensor
    positions: Tensor
    hidden: Tensor
    out_cache_loc: tuple[Tensor, ...]
    query_start_loc: Tensor
    seq_lens: Tensor
    page_table: tuple[Tensor, ...]
    conv_slots: Tensor
    sample_rows: Tensor


@dataclass(frozen=True)
class Limits:
    """The shapes and ranges a call must keep to."""

    steps: int
    hidden_size: int
    dtype: torch.dtype
    device: torch.device
    max_batch: int
    num_slots: int
    cells: tuple[int, ...]
    num_pages: tuple[int, ...]
    cols: tuple[int, ...]
    capacity: tuple[int | None, ...]


def clean(inputs: ForwardInputs, limits: Limits, report: Report) -> CleanInputs:
    """Checks types and shapes, without a host read. n is the length of input_ids, bs that of seq_lens."""
    depth = inputs.depth
    if not isinstance(depth, int) or not 0 <= depth < limits.steps:
        report(f"depth: expected an int in 0..{limits.steps - 1}, got {depth!r}")
        depth = min(max(depth, 0), limits.steps - 1) if isinstance(depth, int) else 0

    def ints(name: str, value: Any, shape: tuple[int, ...] | None, types: tuple[torch.dtype, ...]) -> Tensor:
        return _fit(name, value, shape, types, limits, report).to(torch.int64)

    def at_least_one(name: str, values: Tensor) -> Tensor:
        if values.shape[0]:
            return values
        report(f"{name}: expected at least one value, got none")
        return torch.zeros(1, dtype=torch.int64, device=limits.device)

    ids = at_least_one("input_ids", ints("input_ids", inputs.input_ids, None, (torch.int32,)))
    seq_lens = at_least_one("seq_lens", ints("seq_lens", inputs.seq_lens, None, INDEX_TYPES))
    n, bs = ids.shape[0], seq_lens.shape[0]
    if bs > limits.max_batch:
        report(f"seq_lens: expected at most max_batch = {limits.max_batch} requests, got {bs}")
    groups = len(limits.cells)
    locs = _per_group("out_cache_loc", inputs.out_cache_loc, groups, report)
    tables = _per_group("page_table", inputs.page_table, groups, report)
    return CleanInputs(
        depth=depth,
        input_ids=ids,
        positions=ints("positions", inputs.positions, (n,), INDEX_TYPES),
        hidden=_fit("hidden", inputs.hidden, (n, limits.hidden_size), (limits.dtype,), limits, report),
        out_cache_loc=tuple(ints(f"out_cache_loc[{g}]", loc, (n,), INDEX_TYPES) for g, loc in enumerate(locs)),
        query_start_loc=ints("query_start_loc", inputs.query_start_loc, (bs + 1,), INDEX_TYPES),
        seq_lens=seq_lens,
        page_table=tuple(
            ints(f"page_table[{g}]", table, (bs, limits.cols[g]), INDEX_TYPES) for g, table in enumerate(tables)
        ),
        conv_slots=ints("conv_slots", inputs.conv_slots, (bs,), INDEX_TYPES),
        sample_rows=ints("sample_rows", inputs.sample_rows, (bs,), INDEX_TYPES),
    )


def check_ranges(call: CleanInputs, limits: Limits, report: Report) -> None:
    """Reads the indices on the host and reports those out of range. Not for captured rounds."""

    def within(name: str, value: Tensor, low: int, high: int) -> None:
        if value.numel() and not (low <= int(value.min()) and int(value.max()) <= high):
            report(f"{name}: expected values in {low}..{high}, got {int(value.min())}..{int(value.max())}")

    n = call.input_ids.shape[0]
    starts = call.query_start_loc.tolist()
    if starts[0] != 0 or starts[-1] != n or starts != sorted(starts):
        report(f"query_start_loc: expected 0..{n} (= rows of input_ids), never falling, got {starts}")
    within("conv_slots", call.conv_slots, 0, limits.num_slots - 1)
    within("sample_rows", call.sample_rows, 0, max(n - 1, 0))
    for g, cells in enumerate(limits.cells):
        within(f"out_cache_loc[{g}]", call.out_cache_loc[g], 0, cells - 1)
        within(f"page_table[{g}]", call.page_table[g], 0, limits.num_pages[g] - 1)
        capacity = limits.capacity[g]
        if capacity is not None:
            within(f"seq_lens (table of group {g})", call.seq_lens, 1, capacity)


def _per_group(name: str, value: Any, groups: int, report: Report) -> list[Any]:
    if not isinstance(value, (tuple, list)):
        report(f"{name}: expected a tuple with one tensor for each of {groups} cache groups, got {_kind(value)}")
        return [value] * groups
    if len(value) != groups:
        report(f"{name}: expected {groups} tensors, one for each cache group, got {len(value)}")
    kept: list[Any] = list(value[:groups]) or [torch.zeros(0, dtype=torch.int64)]
    return kept + kept[-1:] * (groups - len(kept))


def _fit(
    name: str, value: Any, shape: tuple[int, ...] | None, types: tuple[torch.dtype, ...], limits: Limits, report: Report
) -> Tensor:
    """The value as a tensor of one of ``types`` and of ``shape`` (None: any one dimension): cast, cut, zero-filled."""
    expected = " or ".join(str(t).removeprefix("torch.") for t in types)
    if not isinstance(value, Tensor):
        report(f"{name}: expected a torch tensor of {expected}, got {_kind(value)}")
    tensor = _as_tensor(value, types[0])
    if tensor.device.type != limits.device.type:
        report(f"{name}: expected a tensor on {limits.device}, got one on {tensor.device}")
        tensor = tensor.to(limits.device)
    if tensor.dtype not in types:
        report(f"{name}: expected {expected}, got {str(tensor.dtype).removeprefix('torch.')}")
        tensor = tensor.to(types[0])
    if shape is None:
        if tensor.dim() != 1:
            report(f"{name}: expected one dimension, got shape {list(tensor.shape)}")
        return tensor.reshape(-1)
    if tuple(tensor.shape) == shape:
        return tensor
    report(f"{name}: expected shape {list(shape)}, got {list(tensor.shape)}")
    fitted = torch.zeros(shape, dtype=tensor.dtype, device=limits.device)
    if tensor.dim() != len(shape):
        flat = tensor.reshape(-1)[: fitted.numel()]
        fitted.view(-1)[: flat.numel()] = flat
        return fitted
    overlap = tuple(slice(0, min(have, want)) for have, want in zip(tensor.shape, shape, strict=True))
    fitted[overlap] = tensor[overlap]
    return fitted


def _as_tensor(value: Any, dtype: torch.dtype) -> Tensor:
    if isinstance(value, Tensor):
        return value
    try:
        return torch.as_tensor(value).to(dtype)
    except (TypeError, ValueError, RuntimeError):
        return torch.zeros(0, dtype=dtype)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"
