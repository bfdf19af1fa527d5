"""The Triton kernels of the books: one for a decode round, a few for an EXTEND round. No host value, no atomics.

The stash is a ring of k rows per slot: position p has row p mod k, like the conv ring (S18). A round appends its a new
rows and reads the k - a before them: k different rows, so nothing is rolled, no row is both read and written, and fewer
bytes move than a copy of the stash would. ``start`` [slots] is the first position whose row the stash ever held: 0, or
the length of a prefix hit; a decode round only reads it, so running one twice gives the same.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Sizes that may be 1: a specialized 1 would become a compile-time constant, with a kernel of its own.
PLAIN_INTS = ("table_rows", "loc_stride", "rows", "depth")


@triton.jit(do_not_specialize=PLAIN_INTS)
def window_kernel(
    req_pool_indices, seq_lens, accept_lengths, verify_ids, verify_words, tables,
    stash_tokens, stash_words, start, reached,
    ids, positions, words, locs, frontier,
    table_rows, loc_stride,
    K: tl.constexpr, KP: tl.constexpr, STEPS: tl.constexpr, WORDS: tl.constexpr, BLOCK: tl.constexpr,
    CHUNKS: tl.constexpr, PAGES: tl.constexpr, COLS: tl.constexpr, STREAM: tl.constexpr,
):  # fmt: skip
    """One request's window (S5, S6, S8, S9, S17): programs 0..CHUNKS-1 move hiddens, the last one does the integers.

    Row j stands at F' - k + j and takes verify row src = a - k + j, or for src < 0 the stash row of position F + src.
    It is kept if that position is not before ``start``; masked rows are zero and stand on the null page. Padded rows
    (slot 0) change no stash (S20). Hiddens are moved as int32 words, WORDS a row: selecting 16-bit values takes six
    times the instructions. KP is k rounded up to a power of two; STREAM: the round outgrows the L2 cache, so rows that
    were read give way first.
    """
    chunk = tl.program_id(0) % (CHUNKS + 1)
    r = tl.program_id(0) // (CHUNKS + 1)
    row = r.to(tl.int64)
    slot = tl.load(req_pool_indices + r).to(tl.int64)
    seq_len = tl.load(seq_lens + r)
    accept = tl.load(accept_lengths + r)

    j = tl.arange(0, KP)
    inside = j < K
    src = accept - K + j
    position = seq_len + src
    live = inside & (slot > 0)
    fresh = src >= 0
    append = live & fresh
    # position mod K: the window starts at F' - K, so its row 0 is F' mod K.
    ring = (seq_len + accept) % K + j
    ring = tl.where(ring >= K, ring - K, ring)

    if chunk < CHUNKS:
        col = chunk * BLOCK + tl.arange(0, BLOCK)
        tile = inside[:, None] & (col < WORDS)[None, :]
        # One 64-bit base a request, 32-bit offsets within it: address arithmetic is much of a small round's time.
        stash_words += slot * (K * WORDS)
        source = tl.where(fresh, verify_words + row * (K * WORDS) + src * WORDS, stash_words + ring * WORDS)
        # Read before it is known what is kept: waiting for ``start`` would cost one more memory latency.
        if STREAM:
            moved = tl.load(source[:, None] + col[None, :], mask=tile, other=0, eviction_policy="evict_first")
        else:
            moved = tl.load(source[:, None] + col[None, :], mask=tile, other=0)
        keep = live & (fresh | (position >= tl.load(start + slot)))
        kept = tl.where(keep[:, None], moved, 0)
        tl.store(words + row * (K * WORDS) + (j * WORDS)[:, None] + col[None, :], kept, mask=tile)
        tl.store(stash_words + (ring * WORDS)[:, None] + col[None, :], moved, mask=append[:, None] & tile)
    else:
        keep = live & (fresh | (position >= tl.load(start + slot)))
        stash_tokens += slot * K
        new = tl.load(verify_ids + row * K + src, mask=keep & fresh, other=0)
        old = tl.load(stash_tokens + ring, mask=keep & (src < 0), other=0)
        token = tl.where(fresh, new, old)
        tl.store(ids + row * (K + STEPS) + j, token, mask=inside)
        tl.store(stash_tokens + ring, token, mask=append)
        tl.store(positions + row * K + j, tl.where(keep, position, 0), mask=inside)
        _locations(tables, locs, r, position, keep, row * K + j, inside, table_rows, loc_stride, PAGES, COLS)
        tl.store(frontier + r, tl.where(slot > 0, seq_len + accept, 1))
        tl.store(reached + slot, seq_len + accept, mask=slot > 0)


@triton.jit
def _locations(
    tables, locs, r, position, keep, out, inside, table_rows, loc_stride, PAGES: tl.constexpr, COLS: tl.constexpr
):  # fmt: skip
    """Write locations of every cache group (S17): table_g[r, (p // page) % cols] * page + p % page, 0 if masked."""
    before = 0
    for g in tl.static_range(len(PAGES)):
        entry = tables + table_rows.to(tl.int64) * before + r.to(tl.int64) * COLS[g] + (position // PAGES[g]) % COLS[g]
        page = tl.load(entry, mask=keep, other=0)
        loc = tl.where(keep, page * PAGES[g] + position % PAGES[g], 0)
        tl.store(locs + g * loc_stride.to(tl.int64) + out, loc, mask=inside)
        before += COLS[g]


@triton.jit(do_not_specialize=PLAIN_INTS)
def extend_rows_kernel(
    row_request, row_offset, req_pool_indices, prefix_lens, tables, start, positions, locs,
    rows, loc_stride, table_rows,
    BLOCK: tl.constexpr, PAGES: tl.constexpr, COLS: tl.constexpr,
):  # fmt: skip
    """Positions and write locations of an EXTEND round's rows. A row at offset o < 0 re-runs position s + o (S13)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < rows
    r = tl.load(row_request + i, mask=inside, other=0)
    offset = tl.load(row_offset + i, mask=inside, other=0)
    slot = tl.load(req_pool_indices + r, mask=inside, other=0).to(tl.int64)
    prefix = tl.load(prefix_lens + r, mask=inside, other=0)
    position = prefix + offset
    first = tl.load(start + slot, mask=inside, other=0)
    keep = inside & (slot > 0) & ((offset >= 0) | (position >= first))
    tl.store(positions + i, tl.where(keep, position, 0), mask=inside)
    _locations(tables, locs, r, position, keep, i, inside, table_rows, loc_stride, PAGES, COLS)


@triton.jit(do_not_specialize=PLAIN_INTS)
def extend_ids_kernel(
    row_request, row_offset, req_pool_indices, prefix_lens, extend_lens, chunk_starts, is_final,
    input_ids, next_ids, sampled_ids, drafts, stash_tokens, start, ids, rows, depth,
    K: tl.constexpr, STEPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Depth d's ids (S12): the row at offset o consumes the token at s + t, t = o + d + 1. t < 0 is the stash's, t < n
    the chunk's, t = n the sampled token of a final chunk; then the prompt's next ids, and this round's drafts where
    nobody knows the token yet (next id -1)."""
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = i < rows
    r = tl.load(row_request + i, mask=inside, other=0)
    offset = tl.load(row_offset + i, mask=inside, other=0)
    slot = tl.load(req_pool_indices + r, mask=inside, other=0).to(tl.int64)
    prefix = tl.load(prefix_lens + r, mask=inside, other=0)
    first = tl.load(start + slot, mask=inside, other=0)
    keep = inside & (slot > 0) & ((offset >= 0) | (prefix + offset >= first))
    n = tl.load(extend_lens + r, mask=inside, other=0)
    chunk = tl.load(chunk_starts + r, mask=inside, other=0)
    final = tl.load(is_final + r, mask=inside, other=0) != 0

    t = offset + depth + 1
    m = t - n
    # The stash row of position s + t - 1 holds the token at s + t.
    ring = slot * K + (prefix + t - 1 + K) % K
    token = tl.load(stash_tokens + ring, mask=keep & (t < 0), other=0)
    token += tl.load(input_ids + chunk + t, mask=keep & (t >= 0) & (m < 0), other=0)
    sampled = keep & (m == 0) & final
    token += tl.load(sampled_ids + r, mask=sampled, other=0)
    beyond = keep & (m >= 0) & (sampled == 0)
    known = tl.load(next_ids + r * STEPS + m, mask=beyond, other=0)
    draft = tl.load(drafts + r * STEPS + m - 1, mask=beyond & (known < 0), other=0)
    tl.store(ids + i, token + tl.where(known < 0, draft, known), mask=inside)


@triton.jit
def extend_hidden_kernel(
    row_request, row_offset, req_pool_indices, prefix_lens, chunk_starts, chunk_hidden, stash_hidden, start, hidden,
    K: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Depth-0 hiddens of one row: the chunk's, or the stash's for a re-run row (one program per row and chunk of H)."""
    i = tl.program_id(0) // CHUNKS
    r = tl.load(row_request + i)
    offset = tl.load(row_offset + i)
    slot = tl.load(req_pool_indices + r).to(tl.int64)
    position = tl.load(prefix_lens + r) + offset
    keep = (slot > 0) & ((offset >= 0) | (position >= tl.load(start + slot)))
    ring = slot * K + position % K
    row = (tl.load(chunk_starts + r) + offset).to(tl.int64)
    source = tl.where(offset >= 0, chunk_hidden + row * H, stash_hidden + ring * H)
    col = (tl.program_id(0) % CHUNKS) * BLOCK + tl.arange(0, BLOCK)
    moved = tl.load(source + col, mask=keep & (col < H), other=0.0)
    tl.store(hidden + i.to(tl.int64) * H + col, moved, mask=col < H)


@triton.jit
def extend_stash_kernel(
    req_pool_indices, prefix_lens, extend_lens, chunk_starts, is_final, input_ids, next_ids, sampled_ids, chunk_hidden,
    stash_tokens, stash_hidden, start, reached,
    K: tl.constexpr, KP: tl.constexpr, STEPS: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr, CHUNKS: tl.constexpr,
):  # fmt: skip
    """Append one request's chunk to its stash (S14): its last min(n, k) rows go behind what the chunk before left."""
    chunk = tl.program_id(0) % (CHUNKS + 1)
    r = tl.program_id(0) // (CHUNKS + 1)
    slot = tl.load(req_pool_indices + r).to(tl.int64)
    n = tl.load(extend_lens + r)
    first_row = tl.load(chunk_starts + r)
    prefix = tl.load(prefix_lens + r)
    j = tl.arange(0, KP)
    q = n - K + j
    keep = (j < K) & (q >= 0) & (slot > 0)
    ring = slot * K + (prefix + q + K) % K
    if chunk < CHUNKS:
        col = chunk * BLOCK + tl.arange(0, BLOCK)
        mask = keep[:, None] & (col < H)[None, :]
        source = chunk_hidden + ((first_row + q).to(tl.int64) * H)[:, None] + col[None, :]
        moved = tl.load(source, mask=mask, other=0.0)
        tl.store(stash_hidden + (ring * H)[:, None] + col[None, :], moved, mask=mask)
    else:
        last = q == n - 1
        final = tl.load(is_final + r) != 0
        token = tl.load(input_ids + first_row + q + 1, mask=keep & (q < n - 1), other=0)
        after = tl.where(final, tl.load(sampled_ids + r), tl.load(next_ids + r * STEPS))
        tl.store(stash_tokens + ring, tl.where(last, after, token), mask=keep)
        tl.store(start + slot, tl.minimum(tl.load(start + slot), prefix), mask=slot > 0)
        tl.store(reached + slot, prefix + n, mask=slot > 0)


@triton.jit
def copy_kernel(source, out, stash, K: tl.constexpr, KP: tl.constexpr, H: tl.constexpr, BLOCK: tl.constexpr):
    """The floor of the benchmark, the fewest bytes: k rows read, k rows written, rows 1..k-1 written once more."""
    chunks: tl.constexpr = (H + BLOCK - 1) // BLOCK
    row = (tl.program_id(0) // chunks).to(tl.int64)
    col = (tl.program_id(0) % chunks) * BLOCK + tl.arange(0, BLOCK)
    j = tl.arange(0, KP)
    inside = (j < K)[:, None] & (col < H)[None, :]
    moved = tl.load(source + ((row * K + j) * H)[:, None] + col[None, :], mask=inside, other=0.0)
    tl.store(out + ((row * K + j) * H)[:, None] + col[None, :], moved, mask=inside)
    tl.store(stash + ((row * (K - 1) + j - 1) * H)[:, None] + col[None, :], moved, mask=inside & (j > 0)[:, None])
