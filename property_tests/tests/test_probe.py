"""The probe equals a slow loop over rows, cell by cell, on calls no correct system would make; it never crashes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from probe_calls import SLOTS, configured, inputs_of, random_call
from slow_probe import SlowProbe

from frontier_oracle.oracle.contract import ForwardInputs
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.convert import digests_of
from frontier_oracle.property_tests.host_guard import no_host_reads
from frontier_oracle.property_tests.probe import DigestProbe

torch.set_num_threads(1)

SPECS = {
    "plain": Spec(k=4),
    "no conv": Spec(k=3, conv_width=1),
    "two groups": Spec(k=4, groups=(CacheGroup(4), CacheGroup(2, window=5))),
    "window": Spec(k=2, steps=2, groups=(CacheGroup(4, window=6),), conv_width=3),
    "pages of one": Spec(k=3, conv_width=2, groups=(CacheGroup(1), CacheGroup(3))),
    "small pages, long taps": Spec(k=2, conv_width=6, groups=(CacheGroup(2),)),
}


def assert_same_state(probe: DigestProbe, slow: SlowProbe) -> None:
    spec, config = probe.config.spec, probe.config
    for depth in range(spec.steps):
        assert probe.kv[depth].tolist() == [slow.read_kv(depth, c) for c in range(len(probe.kv[depth]))]
        for slot in range(config.num_slots):
            assert probe.ring[depth, slot].tolist() == [
                slow.read_ring(depth, slot, row) for row in range(probe.ring_rows)
            ]
        for page in range(config.num_pages[0]):
            assert probe.ckpt[depth, page].tolist() == [slow.read_ckpt(depth, page, i) for i in range(spec.taps)]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("name", SPECS)
def test_equals_the_slow_loop(name: str, seed: int) -> None:
    config = configured(SPECS[name], hidden_size=8 if seed % 2 else 24)
    rng = np.random.default_rng(seed)
    probe, slow = DigestProbe(config, record=seed % 3 == 0), SlowProbe(config, config.spec.ring_rows)
    for step in range(8):
        call = random_call(config, rng, step % config.spec.steps)
        outputs, tokens = probe.forward(inputs_of(call, config))
        want_outputs, want_tokens = slow.forward(call)
        assert digests_of(outputs).tolist() == want_outputs
        assert tokens.dtype == torch.int32
        assert tokens.tolist() == want_tokens
        for log in probe.take_calls():
            assert log.output_digest.tolist() == want_outputs
            assert log.hidden_digest.tolist() == call["hidden"]
    assert_same_state(probe, slow)


def test_a_shorter_ring_can_be_asked_for() -> None:
    config = configured(SPECS["plain"])
    probe, slow = DigestProbe(config, ring_rows=4), SlowProbe(config, 4)
    call = random_call(config, np.random.default_rng(99), 0)
    probe.forward(inputs_of(call, config))
    slow.forward(call)
    assert probe.ring.shape == (3, SLOTS, 4)
    assert_same_state(probe, slow)


def test_checkpoint_restores_the_ring_of_another_slot() -> None:
    config = configured(SPECS["plain"])
    probe = DigestProbe(config)
    taps, ring_rows = config.spec.taps, probe.ring_rows
    probe.ckpt.copy_(torch.arange(probe.ckpt.numel()).view(probe.ckpt.shape))
    before = probe.ring.clone()
    probe.load_conv_state(3, 1, 16)
    for depth in range(config.spec.steps):
        for i in range(taps):
            assert probe.ring[depth, 3, (16 - taps + i) % ring_rows] == probe.ckpt[depth, 1, i]
    untouched = [row for row in range(ring_rows) if row not in {(16 - taps + i) % ring_rows for i in range(taps)}]
    assert torch.equal(probe.ring[:, 3, untouched], before[:, 3, untouched])
    assert torch.equal(probe.ring[:, [0, 1, 2, 4]], before[:, [0, 1, 2, 4]])
    probe.load_conv_state(2, 1, 1)
    changed = (probe.ring != before)[:, 2].sum(1)
    assert changed.tolist() == [1] * config.spec.steps


def test_reads_nothing_on_the_host_and_repeats_itself() -> None:
    config = configured(SPECS["two groups"])
    call = random_call(config, np.random.default_rng(5), 1)
    inputs = inputs_of(call, config)
    copies = [DigestProbe(config) for _ in range(2)]
    with no_host_reads():
        first, second = (probe.forward(inputs) for probe in copies)
    assert torch.equal(first[0], second[0])
    assert torch.equal(first[1], second[1])


def test_recording_is_exempt_from_the_guard() -> None:
    config = configured(SPECS["plain"])
    probe = DigestProbe(config, record=True)
    with no_host_reads():
        probe.forward(inputs_of(random_call(config, np.random.default_rng(6), 0), config))
    assert len(probe.take_calls()) == 1


def spoiled(inputs: ForwardInputs, field: str, value: Any) -> ForwardInputs:
    return replace(inputs, **{field: value})


@pytest.mark.parametrize(
    ("field", "spoil", "says"),
    [
        ("input_ids", lambda v: v.long(), "input_ids: expected int32, got int64"),
        ("input_ids", lambda v: v.tolist(), "input_ids: expected a torch tensor of int32, got a list"),
        ("positions", lambda v: v.float(), "positions: expected int32 or int64, got float32"),
        ("positions", lambda v: v[:-1], "positions: expected shape"),
        ("hidden", lambda v: v.to(torch.bfloat16), "hidden: expected float32, got bfloat16"),
        ("hidden", lambda v: v[:, :4], "hidden: expected shape"),
        ("hidden", lambda v: v[:, :, None], "hidden: expected shape"),
        ("out_cache_loc", lambda v: v[0], "out_cache_loc: expected a tuple"),
        ("out_cache_loc", lambda v: v[:1], "out_cache_loc: expected 2 tensors"),
        ("out_cache_loc", lambda v: (v[0] + 10**6, v[1]), "out_cache_loc[0]: expected values in 0.."),
        ("page_table", lambda v: (v[0], v[1] - 10**6), "page_table[1]: expected values in 0.."),
        ("page_table", lambda v: (v[0][:, :1], v[1]), "page_table[0]: expected shape"),
        ("page_table", lambda v: (), "page_table: expected 2 tensors"),
        ("query_start_loc", lambda v: v.flip(0), "query_start_loc: expected 0.."),
        ("query_start_loc", lambda v: v + 3, "query_start_loc: expected 0.."),
        ("query_start_loc", lambda v: v[:-1], "query_start_loc: expected shape"),
        ("seq_lens", lambda v: v + 10**6, "seq_lens (table of group 0): expected values in 1.."),
        ("seq_lens", lambda v: v[:, None], "seq_lens: expected one dimension"),
        ("conv_slots", lambda v: v + SLOTS, "conv_slots: expected values in 0..4"),
        ("sample_rows", lambda v: v - 10**6, "sample_rows: expected values in 0.."),
        ("sample_rows", lambda v: None, "sample_rows: expected a torch tensor of int32 or int64, got nothing"),
        ("sample_rows", lambda v: "last", "sample_rows: expected a torch tensor of int32 or int64, got a str"),
        ("depth", lambda v: None, "depth: expected an int in 0..2, got None"),
        ("depth", lambda v: 7, "depth: expected an int in 0..2, got 7"),
    ],
)
def test_violations_are_named_and_survived(field: str, spoil: Any, says: str) -> None:
    config = configured(SPECS["two groups"])
    probe = DigestProbe(config, record=True)
    call = random_call(config, np.random.default_rng(8), 0)
    inputs = inputs_of(call, config)
    inputs = spoiled(inputs, field, spoil(getattr(inputs, field)))
    outputs, tokens = probe.forward(inputs)
    probe.forward(inputs)
    assert outputs.shape == (len(call["input_ids"]), 8)
    assert tokens.shape == (len(call["seq_lens"]),)
    assert sum(says in error for error in probe.contract_errors) == 1, probe.contract_errors


def test_an_empty_call_is_survived() -> None:
    config = configured(SPECS["two groups"])
    probe = DigestProbe(config, record=True)
    inputs = inputs_of(random_call(config, np.random.default_rng(8), 0), config)
    probe.forward(replace(inputs, input_ids=inputs.input_ids[:0], seq_lens=inputs.seq_lens[:0]))
    assert any("input_ids: expected at least one value" in error for error in probe.contract_errors)
    assert any("seq_lens: expected at least one value" in error for error in probe.contract_errors)
