"""The two ideal drafters agree on every cell after every round; the target's chain; the views' corner cases."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontier_oracle.oracle import digest
from frontier_oracle.oracle.ideal import Ideal, recompute
from frontier_oracle.oracle.incremental import IncrementalIdeal
from frontier_oracle.oracle.spec import CacheGroup, HiddenSemantic, Spec
from frontier_oracle.oracle.target import candidates, target_rows, verify_rows

GROUPS = ((CacheGroup(4),), (CacheGroup(4), CacheGroup(2, 1)), (CacheGroup(4, 5), CacheGroup(3), CacheGroup(2, 3)))


@dataclass(frozen=True)
class Run:
    """One batch: per request its prompt chunks, then its accept lengths; forced or own drafts."""

    spec: Spec
    chunks: list[list[int]]
    accepts: list[list[int]]
    forced: bool
    seed: int


@st.composite
def specs(draw: st.DrawFn, hidden: HiddenSemantic) -> Spec:
    k = draw(st.integers(2, 5))
    steps = draw(st.integers(1, k))
    return Spec(k, steps, hidden, draw(st.integers(1, 4)), draw(st.sampled_from(GROUPS)))


@st.composite
def runs(draw: st.DrawFn, hidden: HiddenSemantic) -> Run:
    spec = draw(specs(hidden))
    batch = draw(st.integers(1, 3))
    rounds = draw(st.integers(0, 5))
    count = draw(st.integers(1, 3))
    chunks = st.lists(st.integers(1, 7), min_size=count, max_size=count)
    accepts = st.lists(st.integers(1, spec.max_accept), min_size=rounds, max_size=rounds)
    return Run(
        spec,
        [draw(chunks) for _ in range(batch)],
        [draw(accepts) for _ in range(batch)],
        draw(st.booleans()),
        draw(st.integers(0, 2**32)),
    )


def views(run: Run) -> list[tuple[np.ndarray, np.ndarray]]:
    """(K [B], C [B]) after every round."""
    chunks, accepts = np.array(run.chunks), np.array(run.accepts).reshape(len(run.chunks), -1)
    computed = np.cumsum(chunks, axis=1)
    prompt = computed[:, -1]
    result = [(prompt - 1 if c < computed.shape[1] - 1 else prompt, computed[:, c]) for c in range(computed.shape[1])]
    for r in range(accepts.shape[1]):
        frontier = prompt + accepts[:, : r + 1].sum(axis=1)
        result.append((frontier, frontier))
    return result


def accepted_from(tokens: np.ndarray, drafts: np.ndarray, computed: np.ndarray, accept: np.ndarray) -> None:
    """Commit a round: the accepted drafts, then whatever stands in ``tokens`` already."""
    for b in range(len(tokens)):
        used = min(int(accept[b]) - 1, drafts.shape[1])
        tokens[b, computed[b] + 1 : computed[b] + 1 + used] = drafts[b, :used]


def one(run: Run, b: int, tokens: np.ndarray, known: np.ndarray, hidden: np.ndarray, c: int, drafts: object) -> Ideal:
    consumed = drafts[b] if isinstance(drafts, np.ndarray) else None
    return recompute(run.spec, tokens[b, : known[b] + 1], hidden[b, :c], consumed)


def check(run: Run) -> None:
    rng = np.random.default_rng(run.seed)
    all_views = views(run)
    batch, width = len(run.chunks), max(int(c.max()) for _, c in all_views) + 1
    tokens = rng.integers(0, 2**30, (batch, width))
    hidden = rng.integers(-(2**63), 2**63 - 1, (batch, width))
    incremental = IncrementalIdeal(run.spec, batch, width)
    returned, before = np.zeros((batch, run.spec.steps), dtype=np.int32), None
    for known, computed in all_views:
        if before is not None:
            accepted_from(tokens, returned, before, computed - before)
        drafts = rng.integers(0, 2**30, (batch, run.spec.steps)).astype(np.int32) if run.forced else None
        own = incremental.update(tokens, known, hidden, computed, drafts)
        for b in range(batch):
            c = int(computed[b])
            ideal = one(run, b, tokens, known, hidden, c, drafts)
            assert np.array_equal(incremental.entries[:, b, :c], ideal.entries)
            assert np.array_equal(incremental.rings[:, b, :c], ideal.rings)
            layers = run.spec.layers
            assert np.array_equal(incremental.outputs[:layers, b, :c], ideal.outputs[:layers])
            assert np.array_equal(own[b], ideal.drafts)
        returned, before = (own if drafts is None else drafts), computed


@given(runs("chain"))
def test_incremental_equals_recompute_chain(run: Run) -> None:
    check(run)


@given(runs("target"))
def test_incremental_equals_recompute_target(run: Run) -> None:
    check(run)


@given(runs("shifted"))
def test_incremental_equals_recompute_shifted(run: Run) -> None:
    check(run)


@given(runs("previous"))
def test_incremental_equals_recompute_previous(run: Run) -> None:
    check(run)


@given(runs("single"))
def test_incremental_equals_recompute_single(run: Run) -> None:
    check(run)


@given(runs("chain"), st.data())
def test_a_replaced_request_is_computed_again_from_lo(run: Run, data: st.DataObject) -> None:
    """A slot's new owner: other tokens, a shorter C, everything from lo on (S19)."""
    rng = np.random.default_rng(run.seed)
    batch, width = len(run.chunks), 40
    tokens = rng.integers(0, 2**30, (batch, width))
    hidden = rng.integers(-(2**63), 2**63 - 1, (batch, width))
    incremental = IncrementalIdeal(run.spec, batch, width)
    computed = np.full(batch, data.draw(st.integers(1, 12)))
    incremental.update(tokens, computed, hidden, computed)
    lo = np.minimum(data.draw(st.integers(0, 6)), computed)
    tokens[:, lo[0] + run.spec.steps :] += 1
    again = lo + data.draw(st.integers(1, 9))
    own = incremental.update(tokens, again, hidden, again, lo=lo)
    for b in range(batch):
        c = int(again[b])
        ideal = one(run, b, tokens, again, hidden, c, None)
        assert np.array_equal(incremental.entries[:, b, :c], ideal.entries)
        assert np.array_equal(own[b], ideal.drafts)


def test_entry_by_hand() -> None:
    """E(1,1) of chunks 2 at k=2, steps=2 written out: S1, S2 and the taps."""
    spec = Spec(k=2, steps=2, conv_width=2)
    tokens, hidden = np.array([5, 6, 7]), np.array([100, 200])
    ideal = recompute(spec, tokens, hidden)
    rows = [digest.ring_row(0, np.array([t]), np.array([h])) for t, h in ((6, 100), (7, 200))]
    zero = np.array([0])
    first = digest.entry(0, zero, np.array([6]), np.array([100]), digest.tap(1, zero))
    second = digest.entry(0, zero + 1, np.array([7]), np.array([200]), digest.tap(1, rows[0]))
    out = digest.output(zero + 1, second, digest.keyed(zero, first) + digest.keyed(zero + 1, second))
    assert ideal.outputs[0, 1] == out[0]
    assert ideal.drafts[0] == digest.draft_token(out)[0]
    ring = digest.ring_row(1, np.array([7]), ideal.outputs[0, :1])
    deeper = digest.entry(1, zero + 1, ideal.drafts[:1].astype(np.int64), out, digest.tap(1, ring))
    assert ideal.entries[1, 1] == deeper[0]


@pytest.mark.parametrize("hidden", ["chain", "target", "shifted", "previous", "single"])
def test_own_drafts_forced_back_change_nothing(hidden: HiddenSemantic) -> None:
    spec = Spec(k=4, hidden=hidden)
    tokens, h = np.arange(10), np.arange(9) * 77
    own = recompute(spec, tokens, h)
    forced = recompute(spec, tokens, h, own.drafts)
    assert np.array_equal(own.entries, forced.entries) and np.array_equal(own.drafts, forced.drafts)


def test_mid_prompt_reads_the_next_chunk_not_drafts() -> None:
    """S12: at C=5 of a prompt of 12 every depth's token is known, so the drafts change no entry."""
    spec = Spec(k=4)
    tokens, h = np.arange(12), np.arange(5) * 77
    junk = recompute(spec, tokens, h, np.array([1, 2, 3]))
    whole = recompute(spec, np.arange(13), np.arange(12) * 77)
    assert np.array_equal(junk.entries, whole.entries[:, :5])


def test_target_chain_continues_and_pads() -> None:
    tokens = np.arange(12).reshape(2, 6)
    states, hiddens = target_rows(np.zeros(2, dtype=np.int64), tokens, 0)
    again, more = target_rows(states[:, 2], tokens[:, 3:], np.array([3, 3]))
    assert np.array_equal(again, states[:, 3:]) and np.array_equal(more, hiddens[:, 3:])
    assert len(np.unique(hiddens)) == 12
    assert candidates(np.array([9]), np.array([[1, 2]]), 4).tolist() == [[9, 1, 2, -1]]
    assert candidates(np.array([9]), np.array([[1, 2, 3, 4]]), 4).tolist() == [[9, 1, 2, 3]]
    right = tokens[:, 4:6]
    _, verified = verify_rows(states[:, 2], np.array([3, 3]), tokens[:, 3], right, 3)
    assert np.array_equal(verified, hiddens[:, 3:])
