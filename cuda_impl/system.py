"""The frontier drafter as a system under test: ``cuda_eager``, ``cuda_tape`` (CPU) and ``cuda_graph`` (GPU).

One round is the books' window, then every depth on views of the same buffers. A captured system runs one graph per
bucket; EXTEND rounds run eagerly, their lengths being host values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor

from frontier_oracle.cuda_impl.books import Books
from frontier_oracle.cuda_impl.buffers import Buffers
from frontier_oracle.cuda_impl.errors import CaptureRefused
from frontier_oracle.cuda_impl.extend_plan import plan_extend
from frontier_oracle.cuda_impl.graph import Capture, CudaGraph
from frontier_oracle.cuda_impl.launch import kernels_run_on, run_opaque
from frontier_oracle.cuda_impl.media import MediaTable
from frontier_oracle.cuda_impl.tape import Tape
from frontier_oracle.cuda_impl.tensor_books import TensorBooks
from frontier_oracle.oracle.contract import (
    DecodeBatch,
    DraftConfig,
    DraftModel,
    ExtendBatch,
    ForwardInputs,
    StashView,
)
from frontier_oracle.oracle.errors import (
    AddressChanged,
    DataParallelUnsupported,
    HiddenSemanticUnsupported,
    MixedBatchUnsupported,
    UsageError,
)


class InPlaceModel(DraftModel, Protocol):
    """A draft model that costs the books nothing per depth: it reads its ids through a view of the id rows, and its
    sampler stores the draft in them. Decode rounds call it instead of ``forward``."""

    def forward_into(self, inputs: ForwardInputs, draft: Tensor) -> Tensor:
        """``inputs.input_ids`` is [bs, k], strided; ``draft`` [bs] int32, strided, is written. Returns O [n, H]."""
        ...


class FrontierDrafter:
    """contract.StashSystem. ``capture`` makes a graph or tape per bucket; None runs every round eagerly.

    With ``opaque`` a tape takes each model call as one step and runs it anew at every replay, so a probe that records
    sees every call; without it the model's own operations are captured with the rest.

    Raises HiddenSemanticUnsupported for shifted heads, whose entries a k-row window cannot keep exact (S1, S4),
    DataParallelUnsupported (S15), and MediaSubstituteMissing for media ids that it cannot replace (S16).
    """

    capabilities: ClassVar[frozenset[str]] = frozenset(
        {"extend", "adopt", "padding", "stash", "load_stash", "device_only", "media", "refusals"}
    )
    prefix_policy: ClassVar[str] = "successor"

    def __init__(
        self,
        config: DraftConfig,
        model: DraftModel,
        books: Books,
        capture: Callable[[], Capture] | None = None,
        opaque: bool = False,
    ) -> None:
        if config.spec.hidden == "shifted":
            raise HiddenSemanticUnsupported("shifted heads: a frontier window keeps chain and target heads exact only")
        if config.dp_size != 1:
            raise DataParallelUnsupported(f"data-parallel size {config.dp_size}: a drafter serves one rank (S15)")
        self.config, self.books, self._media = config, books, MediaTable(config)
        self.model: Any = model
        self.buffers = Buffers(config)
        self._new_capture, self._opaque, self._in_place = capture, opaque, hasattr(model, "forward_into")
        self._captured: dict[int, tuple[Capture, dict[str, int]]] = {}

    def init_forward_metadata(self, mode: str) -> None:
        """contract.RefusingSystem: raises MixedBatchUnsupported for extend and decode rows in one forward (S15)."""
        if mode not in ("extend", "decode"):
            raise MixedBatchUnsupported(f"a forward in mode {mode!r}: expected extend or decode rows alone (S15)")

    def decode(self, batch: DecodeBatch) -> Tensor:
        """contract.System.decode: padded to a bucket, captured at the bucket's first use."""
        with self._range("decode"):
            bucket = self.buffers.bucket(batch.req_pool_indices.shape[0])
            if self._new_capture and bucket not in self._captured:
                self._captured[bucket] = self._capture(self._new_capture(), bucket)
            self.buffers.fill(batch)
            self.books.before_decode(self.buffers, bucket)
            if self._new_capture:
                self._replay(bucket)
            else:
                self._round(bucket)
            return self.buffers.result(batch.req_pool_indices.shape[0]).clone()

    def update_draft_forward_metadata(self, bs: int) -> None:
        """The backend hook (S9): ids, positions, locations and seq_lens of all depths, absolute from the frontier."""
        with self._range("update_draft_forward_metadata"):
            self.books.decode(self.buffers, bs)

    def _round(self, bs: int) -> None:
        """What is captured: the window, then each depth and its draft."""
        self.update_draft_forward_metadata(bs)
        b, k = self.buffers, self.config.spec.k
        window, inputs = b.window(bs), b.batch(bs)
        hidden = window.hidden
        for depth in range(self.config.spec.steps):
            with self._range(f"forward depth {depth}"):
                ids, draft = window.ids[:, depth : depth + k], window.ids[:, k + depth]
                call = ForwardInputs(
                    depth=depth,
                    input_ids=ids if self._in_place else ids.reshape(-1),
                    positions=window.positions,
                    hidden=hidden,
                    out_cache_loc=window.locs,
                    query_start_loc=b.query_start_loc[: bs + 1],
                    seq_lens=window.frontier,
                    page_table=inputs.page_table,
                    conv_slots=inputs.req_pool_indices,
                    sample_rows=b.sample_rows[:bs],
                )
                outputs = self._run_model(call, draft)
            hidden = outputs if self.config.spec.hidden == "chain" else window.hidden

    def _run_model(self, call: ForwardInputs, draft: Tensor) -> Tensor:
        """One depth. Returns O [n, H]; the draft goes into its column of the id rows."""
        if self._in_place:
            return self.model.forward_into(call, draft)
        if not self._opaque:
            outputs, sampled = self.model.forward(call)
            draft.copy_(sampled)
            return outputs
        home = torch.empty_like(call.hidden)

        def step() -> None:
            outputs, sampled = self.model.forward(call)
            home.copy_(outputs)
            draft.copy_(sampled)

        run_opaque(step)
        return home

    def _capture(self, capture: Capture, bucket: int) -> tuple[Capture, dict[str, int]]:
        """Warm up and capture on padding alone: neither changes a live slot (S20). The batch that is waiting may stand
        in the buffers already."""
        with self.buffers.padded(bucket):
            if capture.warms_up:
                self._round(bucket)
            capture.capture(lambda: self._round(bucket))
        return capture, self._addresses()

    def _replay(self, bucket: int) -> None:
        capture, addresses = self._captured[bucket]
        moved = sorted(name for name, now in self._addresses().items() if addresses.get(name) != now)
        if moved:
            raise AddressChanged(f"buffers moved since the round was captured: {', '.join(moved)} (S24)")
        capture.replay()

    def _addresses(self) -> dict[str, int]:
        return {name: t.data_ptr() for name, t in (self.buffers.tensors() | self.books.tensors()).items()}

    def extend(self, batch: ExtendBatch) -> Tensor:
        """contract.System.extend: ragged rows, all depths, each draft where the next depth reads it (S12, S13)."""
        with self._range("extend"):
            steps, bs = self.config.spec.steps, len(batch.extend_lens)
            batch = self._media.replaced(batch)
            plan = plan_extend(batch, self.config)
            rows = self.books.extend_rows(batch, plan)
            result = torch.zeros(bs, steps + 1, dtype=torch.int32, device=self.config.device)
            result[:, 0].copy_(batch.sampled_ids)
            drafts = torch.zeros(bs, steps, dtype=torch.int32, device=self.config.device)
            hidden = rows.hidden
            for depth in range(steps):
                outputs, sampled = self.model.forward(
                    ForwardInputs(
                        depth=depth,
                        input_ids=self.books.extend_ids(batch, plan, depth, drafts),
                        positions=rows.positions,
                        hidden=hidden,
                        out_cache_loc=rows.locs,
                        query_start_loc=plan.query_start_loc,
                        seq_lens=batch.seq_lens,
                        page_table=batch.page_table,
                        conv_slots=batch.req_pool_indices,
                        sample_rows=plan.sample_rows,
                    )
                )
                drafts[:, depth].copy_(sampled)
                hidden = outputs if self.config.spec.hidden == "chain" else rows.hidden
            self.books.extend_stash(batch, plan)
            result[:, 1:].copy_(drafts)
            return result

    def adopt(self, slot: int, pages: Sequence[int], length: int) -> None:
        """contract.System.adopt: the stash starts empty, so no window writes below the hit (S21)."""
        self.books.reset(slot)
        if length > 0:
            self.model.load_conv_state(slot, pages[-1], length)

    def release(self, slot: int) -> None:
        """contract.System.release."""
        self.books.reset(slot)

    def stash(self) -> StashView:
        """contract.StashSystem.stash."""
        return self.books.stash()

    def load_stash(self, slots: Tensor, tokens: Tensor, hidden: Tensor, valid_lens: Tensor) -> None:
        """contract.StashSystem.load_stash."""
        self.books.load_stash(slots, tokens, hidden, valid_lens)

    @contextmanager
    def _range(self, name: str) -> Iterator[None]:
        """An NVTX range of the host: those inside a captured round show at warm-up and capture, never at a replay."""
        if self.buffers.ids.is_cuda:
            with torch.cuda.nvtx.range(name):
                yield
        else:
            yield


def make_books(config: DraftConfig) -> Books:
    """Triton kernels where they run (a GPU, or Triton's interpreter); on a bare CPU the plain tensor operations."""
    if kernels_run_on(config.device):
        from frontier_oracle.cuda_impl.triton_books import TritonBooks

        return TritonBooks(config)
    return TensorBooks(config)


def cuda_eager(config: DraftConfig, model: DraftModel) -> FrontierDrafter:
    """Every round launched operation by operation."""
    return FrontierDrafter(config, model, make_books(config))


def cuda_tape(config: DraftConfig, model: DraftModel) -> FrontierDrafter:
    """Rounds recorded once per bucket and replayed on a CPU; model calls are steps of the tape."""
    _needs_cpu(config)
    return FrontierDrafter(config, model, make_books(config), Tape, opaque=True)


def cuda_tape_whole(config: DraftConfig, model: DraftModel) -> FrontierDrafter:
    """The same, the model's operations recorded too, as a graph does."""
    _needs_cpu(config)
    return FrontierDrafter(config, model, make_books(config), Tape)


def _needs_cpu(config: DraftConfig) -> None:
    if torch.device(config.device).type != "cpu":
        raise CaptureRefused(f"a tape records on a CPU, the configuration says {config.device}: use cuda_graph")


def cuda_graph(config: DraftConfig, model: DraftModel) -> FrontierDrafter:
    """Rounds captured as one CUDA graph per bucket."""
    if torch.device(config.device).type != "cuda":
        raise CaptureRefused(f"cuda_graph needs a CUDA device, the configuration says {config.device}: use cuda_tape")
    pool = torch.cuda.graph_pool_handle()
    return FrontierDrafter(config, model, make_books(config), lambda: CudaGraph(pool))


SYSTEMS = {
    "cuda_eager": cuda_eager,
    "cuda_tape": cuda_tape,
    "cuda_tape_whole": cuda_tape_whole,
    "cuda_graph": cuda_graph,
}


def make(config: DraftConfig, model: DraftModel, name: str = "cuda_eager") -> FrontierDrafter:
    """A system by name. Raises UsageError for an unknown one."""
    if name not in SYSTEMS:
        raise UsageError(f"cuda_impl has no system {name!r}: choose one of {', '.join(sorted(SYSTEMS))}")
    return SYSTEMS[name](config, model)
