"""Kernels of our own with the launchers of SGLang's and vLLM's files: plain tensor operations, a request at a time."""

from __future__ import annotations

SGLANG = """
import torch

from sglang.srt.utils import is_cpu

assert not is_cpu()


def rotate_input_ids(ids, starts, lengths, tokens, select=None):
    for r, (start, length) in enumerate(zip(starts.tolist(), lengths.tolist())):
        ids[start:start + length] = ids[start:start + length].roll(-1)
        ids[start + length - 1 if select is None else int(select[r])] = tokens[r]


def stash_append_boundary_state_triton(tokens, hidden, ends, rows, slots, kept, kept_hidden, valid, set_valid):
    front = kept.shape[1]
    for end, n, slot in zip(ends.tolist(), rows.tolist(), slots.tolist()):
        n = min(n, front)
        kept[slot] = torch.cat([kept[slot][n:], tokens[end - n:end].long()])
        kept_hidden[slot] = torch.cat([kept_hidden[slot][n:], hidden[end - n:end]])
        valid[slot] = n if set_valid else min(int(valid[slot]) + n, front)


def fill_widened_draft_extend_inputs_triton(ids, hidden, tokens, fresh, kept, kept_hidden, valid, lens, slots, k):
    front, width = kept.shape[1], kept.shape[1] + k
    for r, slot in enumerate(slots.tolist()):
        first = front - min(int(valid[slot]), int(lens[r]))
        ids[r * width:(r + 1) * width] = torch.cat([kept[slot].int(), tokens[r * k:(r + 1) * k]])
        hidden[r * width:(r + 1) * width] = torch.cat([kept_hidden[slot], fresh[r * k:(r + 1) * k]])
        ids[r * width:r * width + first] = 0
        hidden[r * width:r * width + first] = 0


def compute_widened_draft_extend_locs_positions_triton(lens, slots, table, valid, k, front, warmup):
    j = torch.arange(front + k)
    positions = lens[:, None].long() - front + j
    first = (front - torch.minimum(valid[slots], lens).long()[:, None]).clamp(min=0)
    locs = torch.where(j >= (first + warmup).clamp(max=front), table[0][positions.clamp(min=0)], 0)
    return locs.flatten(), torch.where(j >= first, positions, 0).flatten()
"""

VLLM = """
import torch

from vllm.config.compilation import CUDAGraphMode
from vllm.triton_utils import tl, triton
from vllm.v1.attention.backends.utils import PAD_SLOT_ID
from vllm.v1.worker.gpu.spec_decode.speculator import DraftModelSpeculator


class Speculator(DraftModelSpeculator):
    mode: CUDAGraphMode | None = CUDAGraphMode.NONE


def again(rejected):
    return (rejected - 1).clamp(min=0)


def prepare_input_buffers(bs, seen, kept, sampled, rejected, last, prefill, overrides, out, rows, most, steps):
    out.seq_lens.copy_(seen.seq_lens - again(rejected))
    for r, slot in enumerate(seen.idx_mapping.tolist()):
        start, end = out.query_start_loc[r:r + 2].tolist()
        extra, n = int(again(rejected)[r]), end - start - int(rejected[r])
        final = int(sampled[r]) > 0
        following = last[slot] if final else prefill[0, slot]
        kept_ids = kept[slot][steps - 1 - extra:][:extra].int()
        ids = torch.cat([kept_ids, seen.input_ids[start + 1:start + n], following[None]])
        out.input_ids[start:start + extra + n] = ids
        first = int(seen.positions[start])
        out.positions[start:start + extra + n] = torch.arange(first - extra, first + n)
        rows[r] = start + extra + n - 1
        if not final:
            overrides[r, :steps - 1] = prefill[1:, slot]


def prepare_input_hidden_states_and_embeddings(bs, longest, out, hidden, kept, e, c, seen, buffers, rejected, steps):
    for r, slot in enumerate(seen.idx_mapping.tolist()):
        start, end = buffers.query_start_loc[r:r + 2].tolist()
        extra, n = int(again(rejected)[r]), end - start - int(rejected[r])
        out[start:start + extra + n] = torch.cat([kept[slot][steps - 1 - extra:][:extra], hidden[start:start + n]])


def cache_inputs(buffers, e, hidden, kept, c, kept_hidden, rows, slots, bs, steps, use_input_embeds):
    for r, slot in enumerate(slots.tolist()):
        end = int(rows[r]) + 1
        n = min(steps - 1, end - int(buffers.query_start_loc[r]))
        kept[slot][steps - 1 - n:steps - 1] = buffers.input_ids[end - n:end]
        kept_hidden[slot][steps - 1 - n:steps - 1] = hidden[end - n:end]


def pad_trailing_draft_slots(mapping, starts, rows, bs):
    for r in range(bs):
        mapping[:, int(rows[r]) + 1:int(starts[r + 1])] = PAD_SLOT_ID


def update_draft_inputs(tokens, e, buffers, i, rows, slots, bs):
    for r in range(bs):
        start, end = int(buffers.query_start_loc[r]), int(rows[r]) + 1
        buffers.input_ids[start:end] = torch.cat([buffers.input_ids[start + 1:end], tokens[r][None].int()])
"""
