"""``bench round`` with real MTP heads: the books' share of a captured round, and what the window designs cost.

One depth is timed at the row counts of three windows: frontier runs k rows at every depth; lookback k at depth 0 and
k + D, D = steps - 1, below; minimal (one layer chained on its own hidden) k, then one row a step.
"""

from __future__ import annotations

from typing import Any

import torch

from frontier_oracle.cuda_impl.bench_window import bench_config, filled
from frontier_oracle.cuda_impl.head import HEAD_SIZE, MtpHeads
from frontier_oracle.cuda_impl.system import FrontierDrafter
from frontier_oracle.cuda_impl.tensor_books import TensorBooks
from frontier_oracle.cuda_impl.timing import body_us, kernel_count, replay_us
from frontier_oracle.cuda_impl.triton_books import TritonBooks
from frontier_oracle.oracle.contract import DraftConfig, ForwardInputs

VOCABULARY, CONTEXT, K, BATCHES = 32768, 2048, 4, (1, 8, 64)
SHAPES = {1536: {"kv_heads": 2, "intermediate": 4096}, 4096: {"kv_heads": 8, "intermediate": 11008}}
METHOD = (
    "round and books: as in bench; depth times: body time of one depth (head input, block, vocabulary head, sampler) "
    "at m rows a request; floor: (weights + vocabulary + KV of the requests' positions) / measured copy bandwidth; "
    "attention is torch SDPA over KV gathered through the page table, without rotary embedding"
)


def copy_bandwidth() -> float:
    """Bytes per microsecond of a 4 GiB device copy, read and written bytes counted."""
    source = torch.randint(0, 255, (1 << 32,), dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.numel() / replay_us(lambda: target.copy_(source), samples=7)


def depth_call(heads: MtpHeads, config: DraftConfig, batch: int, m: int) -> ForwardInputs:
    """Depth 0 over m rows a request, ending at random frontiers."""
    device, page = config.device, config.spec.groups[0].page_size
    table = 1 + torch.arange(batch * config.cols[0], dtype=torch.int32, device=device).view(batch, -1)
    seq_lens = torch.randint(CONTEXT // 2, CONTEXT - K, (batch,), dtype=torch.int32, device=device)
    position = seq_lens[:, None] - m + torch.arange(m, device=device)
    locs = table.gather(1, position // page) * page + position % page
    starts = torch.arange(batch + 1, dtype=torch.int32, device=device) * m
    return ForwardInputs(
        depth=0,
        input_ids=torch.randint(0, heads.vocabulary, (batch, m), dtype=torch.int32, device=device),
        positions=position.int().view(-1),
        hidden=torch.randn(batch * m, config.hidden_size, dtype=torch.bfloat16, device=device),
        out_cache_loc=(locs.int().view(-1),),
        query_start_loc=starts,
        seq_lens=seq_lens,
        page_table=(table,),
        conv_slots=torch.arange(1, batch + 1, dtype=torch.int32, device=device),
        sample_rows=starts[1:] - 1,
    )


def bench_point(hidden_size: int, batch: int, bandwidth: float) -> dict[str, Any]:
    """One row of the table, microseconds."""
    config = bench_config(hidden_size, K, batch, CONTEXT)
    heads = MtpHeads(config, VOCABULARY, **SHAPES[hidden_size])
    drafter, steps = FrontierDrafter(config, heads, TritonBooks(config)), config.spec.steps
    drafter.buffers = filled(config, CONTEXT)
    ops = TensorBooks(config)

    def window() -> None:
        drafter.books.decode(drafter.buffers, batch)

    def sequence() -> None:
        ops.decode(drafter.buffers, batch)

    def whole_round() -> None:
        drafter._round(batch)

    draft = torch.zeros(batch, dtype=torch.int32, device="cuda")
    depth = {}
    for m in (1, K, K + steps - 1):
        call = depth_call(heads, config, batch, m)

        def one_depth(call: ForwardInputs = call) -> None:
            heads.forward_into(call, draft)

        depth[m] = body_us(one_depth, samples=5)
    kv_bytes = int(call.seq_lens.sum()) * heads.depths[0].kv_heads * HEAD_SIZE * 2 * 2
    read = heads.depths[0].weight_bytes() + heads.embedding.numel() * 2 + kv_bytes
    round_us, books_us, ops_us = body_us(whole_round, samples=5), body_us(window), body_us(sequence)
    return {
        "H": hidden_size,
        "k": K,
        "batch": batch,
        "context": CONTEXT,
        "round_us": round_us,
        "round_e2e_us": replay_us(whole_round, samples=20),
        "books_us": books_us,
        "books_share": books_us / round_us,
        "ops_us": ops_us,
        "ops_share": ops_us / (round_us - books_us + ops_us),
        "kernels": kernel_count(whole_round),
        "depth_us": depth,
        "floor_depth_us": read / bandwidth,
        "rows": {"frontier": K * steps, "lookback": K * steps + (steps - 1) ** 2, "minimal": K + steps - 1},
        "designs_us": {
            "frontier": steps * depth[K],
            "lookback": depth[K] + (steps - 1) * depth[K + steps - 1],
            "minimal": depth[K] + (steps - 1) * depth[1],
        },
    }


def bench_head() -> list[dict[str, Any]]:
    """Every point of the table."""
    bandwidth = copy_bandwidth()
    rows = []
    for hidden_size in SHAPES:
        for batch in BATCHES:
            rows.append(bench_point(hidden_size, batch, bandwidth) | {"bandwidth_bytes_per_us": bandwidth})
            torch.cuda.empty_cache()
    return rows
