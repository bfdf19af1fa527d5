"""Captured rounds on a CPU: the tape replays what eager does, is judged as eager is, and kills faults of capture."""

import itertools
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from frontier_oracle.cuda_impl.buffers import Buffers
from frontier_oracle.cuda_impl.errors import CaptureRefused
from frontier_oracle.cuda_impl.media import MediaTable
from frontier_oracle.cuda_impl.system import (
    FrontierDrafter,
    cuda_eager,
    cuda_graph,
    cuda_tape,
    cuda_tape_whole,
    make,
    make_books,
)
from frontier_oracle.cuda_impl.tape import Tape
from frontier_oracle.oracle.contract import MediaIds
from frontier_oracle.oracle.errors import (
    AddressChanged,
    DataParallelUnsupported,
    HiddenSemanticUnsupported,
    MediaSubstituteMissing,
    MixedBatchUnsupported,
    UsageError,
)
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.bulk import run_bulk
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.property_tests.shield import on_device

sys.path.insert(0, str(Path(__file__).parent))
from graph_faults import FAULTS, make_faulty  # noqa: E402
from slow_loops import Feeder, rounds_config  # noqa: E402
from twins import check_twins, in_place, sizes  # noqa: E402

SPECS = {
    "chain": (Spec(k=4, groups=(CacheGroup(4), CacheGroup(2, window=8))), {"prompt": 12, "chunks": [5, 5, 2]}),
    "target, short prompt": (Spec(k=3, hidden="target", groups=(CacheGroup(8),)), {"prompt": 1}),
    "steps = k, padded": (Spec(k=3, steps=3), {"prompt": 7, "chunks": [3, 1, 3], "pad_to": 40}),
    "one depth, no conv": (Spec(k=5, steps=1, conv_width=1), {"prompt": 4, "chunks": [3, 1], "hidden_size": 16}),
}


@pytest.mark.parametrize("system", [cuda_eager, cuda_tape, cuda_tape_whole])
@pytest.mark.parametrize("name", SPECS)
def test_every_accept_sequence_of_three_rounds(system, name):
    spec, arguments = SPECS[name]
    accepts = np.array(list(itertools.product(range(1, spec.max_accept + 1), repeat=3)))
    result = run_bulk(system, spec, accepts, **arguments)
    assert result.failures == []
    assert result.request_rounds == accepts.size


@pytest.mark.parametrize(("k", "steps"), [(4, 3), (3, 3), (2, 1)])
def test_the_tape_equals_eager_bit_for_bit(k, steps):
    for tape in (cuda_tape, cuda_tape_whole):
        assert check_twins(rounds_config(k, steps, batch=7), tape) == 1 + 3 + 10 + 28


@pytest.mark.parametrize("max_batch", [1, 2, 3, 4, 7, 13, 64])
def test_the_twins_meet_every_bucket_with_every_amount_of_padding(max_batch):
    config = rounds_config(2, batch=max_batch)
    bucket = Buffers(config).bucket
    met = {(bucket(rows), live) for live, rows in sizes(max_batch)}
    assert met == {(b, n) for b in {bucket(n) for n in range(1, max_batch + 1)} for n in range(1, b + 1)}
    assert {rows for live, rows in sizes(max_batch) if live == rows} == set(range(1, max_batch + 1))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_of_capture_is_killed(fault):
    with pytest.raises((AssertionError, CaptureRefused, AddressChanged)):
        check_twins(rounds_config(4, batch=7), lambda config, model: make_faulty(fault, config, model))


def test_what_cannot_be_served_is_refused_with_the_reason():
    config = rounds_config(4)
    with pytest.raises(CaptureRefused, match="needs a CUDA device"):
        cuda_graph(config, DigestProbe(config))
    with pytest.raises(UsageError, match="choose one of cuda_eager, cuda_graph, cuda_tape, "):
        make(config, DigestProbe(config), "cuda_grpah")
    shifted = rounds_config(4)
    object.__setattr__(shifted, "spec", Spec(k=4, hidden="shifted", groups=config.spec.groups))
    with pytest.raises(HiddenSemanticUnsupported):
        cuda_eager(shifted, DigestProbe(config))


def test_media_and_forwards_that_cannot_be_served_are_refused():
    config = rounds_config(4)
    for media in (MediaIds(100, ()), MediaIds(100, ((100, 200, 100),)), MediaIds(100, ((100, 200, -1),))):
        with pytest.raises(MediaSubstituteMissing, match="the vocabulary of 100"):
            cuda_eager(replace(config, media=media), DigestProbe(config))
    with pytest.raises(DataParallelUnsupported, match="data-parallel size 2"):
        cuda_eager(replace(config, dp_size=2), DigestProbe(config))
    with pytest.raises(MixedBatchUnsupported, match="'mixed'"):
        cuda_eager(config, DigestProbe(config)).init_forward_metadata("mixed")


def test_a_media_id_that_is_not_replaced_is_found(monkeypatch):
    monkeypatch.setattr(MediaTable, "replaced", lambda self, batch: batch)
    outcome = run_scenario(cuda_eager, parse(SCENARIOS[-1]), "successor", stop_at_first=True)
    assert outcome.findings[0].code == "FO101"


@pytest.mark.parametrize("system", [cuda_tape, cuda_tape_whole])
def test_inputs_written_in_place_survive_the_capture_of_their_bucket(system):
    """The first round of each bucket captures it while the batch already stands in the buffers."""
    config = rounds_config(4, batch=7)
    given, in_place = cuda_eager(config, DigestProbe(config)), system(config, DigestProbe(config))
    feeder = Feeder(config, 0)
    for slots in ([1], [2, 1], [3, 1, 2, 4, 5], [2], [1, 2, 3]):
        batch = feeder.decode(slots)
        own = in_place.buffers.batch(len(slots))
        for name in ("req_pool_indices", "seq_lens", "accept_lengths", "verify_ids", "hidden"):
            getattr(own, name).copy_(getattr(batch, name))
        for mine, theirs in zip(own.page_table, batch.page_table, strict=True):
            mine.copy_(theirs)
        assert torch.equal(given.decode(batch), in_place.decode(own)), slots


@pytest.mark.parametrize("capture", [None, Tape])
@pytest.mark.parametrize("name", SPECS)
def test_a_model_that_samples_in_place_is_judged_as_any_other(capture, name):
    """One kernel of books a round: no draft is copied, and ids are read through their strided view."""
    spec, arguments = SPECS[name]
    accepts = np.array(list(itertools.product(range(1, spec.max_accept + 1), repeat=3)))
    assert run_bulk(in_place(capture), spec, accepts, **arguments).failures == []


def test_a_draft_stored_in_the_wrong_column_is_found():
    assert run_bulk(in_place(Tape, shift=-1), Spec(k=4), np.array([[1, 4, 2]]), prompt=6).failures


class ReadsPositions(DigestProbe):
    def forward(self, inputs):
        inputs.positions.tolist()
        return super().forward(inputs)


def test_a_model_that_reads_the_host_cannot_be_captured():
    config = rounds_config(4)
    with pytest.raises(CaptureRefused, match=r"the round cannot be captured: \w+ (reads a value|moves values)"):
        check_twins(config, lambda config, _: cuda_tape_whole(config, ReadsPositions(config)))


SCENARIOS = (
    "k4 page4 | a: p12 chunks 5,5,2 | a1, a1 | b: p9 hit a 8 | a3 b1, b2 /4 | end a",
    "k4 page4,2w8 | a: p1 | a1, a1, a4, a2 | b: p2 chunks 1,1 | a1 b4, b2 a3, b1 | end b | c: p17 hit a 9 | c1, c4 /4",
    "k3 steps3 page4 target | a: p6 chunks 3,1,1,1 | a3, a1 /2",
    "k4 page4 | a: p12 chunks 5,5,2 media 3-6,11-11 | a1, a3 | b: p13 hit a 11 | b1, b2",
)


@pytest.mark.parametrize("text", SCENARIOS)
@pytest.mark.parametrize("system", [cuda_eager, cuda_tape])
def test_scenarios_are_exact_with_every_call_and_host_read_watched(system, text):
    outcome = run_scenario(system, parse(text), "successor")
    assert outcome.findings == []
    assert outcome.request_rounds > 0


@pytest.mark.parametrize("text", SCENARIOS)
def test_a_probe_in_the_captured_region_shows_the_calls_of_every_replay(text):
    """The tape records the probe with the rest, as a graph does: what it logs there is what eager rounds log."""
    assert run_scenario(cuda_tape_whole, parse(text), "successor", guard=False).findings == []


def test_a_wrong_index_is_seen_in_a_captured_call():
    class SamplesRowOne(FrontierDrafter):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.buffers.sample_rows -= 1

    def make(config, model):
        return SamplesRowOne(config, model, make_books(config), Tape)

    outcome = run_scenario(make, parse(SCENARIOS[0]), "successor", guard=False, stop_at_first=True)
    assert outcome.findings[0].code == "FO105"


@pytest.mark.gpu
@pytest.mark.parametrize("text", SCENARIOS)
def test_scenarios_on_a_graph_are_exact_with_every_call_and_host_read_watched(text):
    outcome = run_scenario(on_device(cuda_graph, "cuda"), parse(text), "successor")
    assert outcome.findings == []
    assert outcome.request_rounds > 0


@pytest.mark.gpu
@pytest.mark.parametrize(("k", "steps"), [(4, 3), (3, 3), (2, 1)])
def test_a_graph_equals_eager_bit_for_bit(k, steps):
    assert check_twins(rounds_config(k, steps, device="cuda", batch=7), cuda_graph) == 1 + 3 + 10 + 28


@pytest.mark.gpu
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_of_capture_is_killed_on_a_gpu(fault):
    config = rounds_config(4, device="cuda", batch=7)
    with pytest.raises((AssertionError, CaptureRefused, AddressChanged)):
        check_twins(config, lambda config, model: make_faulty(fault, config, model))
