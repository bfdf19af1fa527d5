"""The plug-in contract: what a system receives, what it returns, and the draft model that is injected into it.

The harness owns slots, page tables and the target. The model (the digest probe, or a real head) owns KV, conv rings
and checkpoints. The system owns its stash and every index it passes. Arrays are torch tensors for a system and numpy
arrays for the index-level executor; ``Array`` stands for either. Ids, positions, locations and lengths are int32
(positions, locations and lengths may be int64); int64 is required of nobody (S10).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from frontier_oracle.oracle.spec import Spec

Array = Any


@dataclass(frozen=True)
class MediaIds:
    """Ids that stand for media (S16). Ids from vocab_size on are content hashes, which no draft head can look up.
    substitutes: (first, end, id) a modality: in the shift-1 buffer its hashes first..end-1 become id, which is inside
    the vocabulary. -1 is a placeholder and stays."""

    vocab_size: int
    substitutes: tuple[tuple[int, int, int], ...]


@dataclass(frozen=True)
class DraftConfig:
    """Everything a system needs to allocate its buffers.

    num_slots counts slot 0, which is reserved for padded rows (S20). num_pages[g] counts the null page 0 (S17).
    cols[g] is the width of group g's page table. hidden_size is a multiple of 8. media: None for a text-only target
    (systems with the capability "media" serve others). dp_size: data-parallel size; above 1 is refused (S15).
    """

    spec: Spec
    num_slots: int
    max_batch: int
    num_pages: tuple[int, ...]
    cols: tuple[int, ...]
    hidden_size: int = 8
    dtype: str = "bfloat16"
    device: str = "cpu"
    media: MediaIds | None = None
    dp_size: int = 1


@dataclass(frozen=True)
class ExtendBatch:
    """One EXTEND round: prompt positions s..s+n-1 of each request (S12, S13). bs requests, N = sum(extend_lens) rows.

    prefix_lens[r] = s and extend_lens[r] = n are host values, as schedulers have them. is_final[r]: the chunk ends the
    prompt, so position s+n was sampled and is committed. input_ids [N] int32: prompt tokens s..s+n-1, requests
    back to back. next_ids [bs, steps] int32: prompt tokens s+n..s+n+steps-1, -1 past the prompt's end (lookahead).
    sampled_ids [bs] int32: the target's sample at s+n: committed for a final chunk, a discarded value otherwise.
    hidden [N, H]: target hiddens h(s..s+n-1). seq_lens [bs] int32: s+n. page_table[g] [bs, cols_g] int32.
    """

    req_pool_indices: Array
    prefix_lens: tuple[int, ...]
    extend_lens: tuple[int, ...]
    is_final: tuple[bool, ...]
    input_ids: Array
    next_ids: Array
    sampled_ids: Array
    hidden: Array
    seq_lens: Array
    page_table: tuple[Array, ...]


@dataclass(frozen=True)
class DecodeBatch:
    """One DECODE round after its verification, bs rows; padded ones (slot 0, null page, seq_len 1) stand last, idle
    ones, which look the same, anywhere (S20).

    req_pool_indices [bs] int32; seq_lens [bs] int32: F, the valid cache length before the round;
    accept_lengths [bs] int32: a, bonus included, 1 <= a <= min(k, steps+1); verify_ids [bs, k] int32: v, of which
    v[:a] is committed at F+1..F+a and v[a:] is garbage; hidden [bs*k, H]: h(F+j) per verify row (garbage for j >= a);
    page_table[g] [bs, cols_g] int32. Everything is on the device; nothing that depends on accepts is a host value.
    """

    req_pool_indices: Array
    seq_lens: Array
    accept_lengths: Array
    verify_ids: Array
    hidden: Array
    page_table: tuple[Array, ...]


@dataclass(frozen=True)
class ForwardInputs:
    """One call of the draft model: depth d over n rows of bs requests, each request's rows contiguous.

    A round calls each depth once, in order, with every request of the batch in batch order (padded rows may be left
    out or masked).

    input_ids [n] int32, positions [n], hidden [n, H]; out_cache_loc[g] [n]: write location in every cache group;
    query_start_loc [bs+1] int32: rows of request r are query_start_loc[r]..query_start_loc[r+1]-1; seq_lens [bs]:
    attention (and conv) extent of a request's LAST row, so row j of m sees seq_lens - (m-1-j) positions;
    page_table[g] [bs, cols_g]; conv_slots [bs]; sample_rows [bs] int32: the row whose output is sampled.
    A row whose location lies on the null page (page 0) in every group is masked: it stores no KV and no ring row, and
    its output is zero. The ring row of a written row is (its extent - 1) mod R.
    """

    depth: int
    input_ids: Array
    positions: Array
    hidden: Array
    out_cache_loc: tuple[Array, ...]
    query_start_loc: Array
    seq_lens: Array
    page_table: tuple[Array, ...]
    conv_slots: Array
    sample_rows: Array


class DraftModel(Protocol):
    """The injected draft model."""

    def forward(self, inputs: ForwardInputs) -> tuple[Array, Array]:
        """Run one depth. Returns (outputs O [n, H], sampled draft tokens [bs] int32)."""
        ...

    def load_conv_state(self, slot: int, page: int, length: int) -> None:
        """Fill ``slot``'s ring rows length-(W-1)..length-1 of every depth from the checkpoint of group 0's ``page``.
        To be called after ``adopt`` and before the request's first call."""
        ...


@dataclass(frozen=True)
class StashView:
    """A system's stash, for checking (S8, S14). tokens [slots, k-1] int32, hidden [slots, k-1, H]; entry i of a slot
    with frontier C belongs to position C-k+1+i: its hidden is h(C-k+1+i), its token x[C-k+2+i]. valid_lens [slots]:
    how many of the last entries hold, or None when the design assumes all k-1 (entries before position 0 are then
    not looked at, entries below a prefix hit are)."""

    tokens: Array
    hidden: Array
    valid_lens: Array | None


class System(Protocol):
    """A drafter under test. ``capabilities`` names what it supports: "extend", "adopt" (prefix hits), "padding",
    "stash" (``stash()``), "load_stash" (``load_stash()``), "device_only" (no host reads in ``decode``), "media"
    (``DraftConfig.media``), "refusals" (``init_forward_metadata()``).
    A system that runs on a GPU says so on its factory: ``make.device = "cuda"``; all that it is given is then there.
    prefix_policy: the policy of its prefix cache, a name in oracle.policies (S21). An optional attribute
    ``declares`` names a design of oracle.designs: its deviations are then tolerated, exactly those."""

    capabilities: frozenset[str]
    prefix_policy: str

    def extend(self, batch: ExtendBatch) -> Array:
        """Run an EXTEND round. Returns [bs, steps+1] int32: column 0 the sampled token, then the drafts.
        Rows of non-final chunks are discarded by the caller."""
        ...

    def decode(self, batch: DecodeBatch) -> Array:
        """Run a DECODE round. Returns [bs, steps+1] int32: column 0 is v[a-1], then the drafts (S10)."""
        ...

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        """A request takes ``slot`` with ``length`` positions from the prefix cache; ``pages`` are group 0's.
        Called before the request's first ``extend`` (whose prefix_len is then ``length``)."""
        ...

    def release(self, slot: int) -> None:
        """The request in ``slot`` ended."""
        ...


class StashSystem(System, Protocol):
    """A system whose stash can be read, and set (for the inductive step)."""

    def stash(self) -> StashView: ...

    def load_stash(self, slots: Array, tokens: Array, hidden: Array, valid_lens: Array) -> None:
        """Set the stash of ``slots`` [b]: tokens [b, k-1], hidden [b, k-1, H], valid_lens [b]."""
        ...


class RefusingSystem(System, Protocol):
    """A system that refuses what it cannot serve (S15, S24), loudly: ``make`` raises errors.UsageError for a dp_size
    above 1 and for media without usable substitutes."""

    def init_forward_metadata(self, mode: str) -> None:
        """Metadata of a forward in ``mode``, "extend" or "decode". Raises errors.UsageError for "mixed"."""
        ...
