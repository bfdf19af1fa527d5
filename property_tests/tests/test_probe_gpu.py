"""On a GPU the probe gives the bits it gives on a CPU, eager and as a captured graph replayed with new inputs (S23)."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from probe_calls import configured, inputs_of, random_call

from frontier_oracle.oracle.contract import ForwardInputs
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.probe import DigestProbe

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]

SPECS = {
    "plain": Spec(k=4),
    "two groups": Spec(k=4, groups=(CacheGroup(4), CacheGroup(2, window=5))),
    "pages of one": Spec(k=3, conv_width=2, groups=(CacheGroup(1), CacheGroup(3))),
}


def state(probe: DigestProbe) -> list[Any]:
    return [cells.tolist() for cells in (*probe.kv, probe.ring, probe.ckpt)]


def copy_into(static: ForwardInputs, fresh: ForwardInputs) -> None:
    for f in fields(static):
        old, new = getattr(static, f.name), getattr(fresh, f.name)
        for target, source in zip(old, new, strict=True) if isinstance(old, tuple) else [(old, new)]:
            if isinstance(target, torch.Tensor):
                target.copy_(source)


@pytest.mark.parametrize("hidden_size", [8, 1536])
@pytest.mark.parametrize("name", SPECS)
def test_cuda_equals_cpu(name: str, hidden_size: int) -> None:
    config = configured(SPECS[name], hidden_size)
    on_gpu = replace(config, device="cuda")
    cpu, gpu = DigestProbe(config), DigestProbe(on_gpu)
    rng = np.random.default_rng(3)
    for step in range(24):
        call = random_call(config, rng, step % config.spec.steps)
        want, want_tokens = cpu.forward(inputs_of(call, config))
        got, got_tokens = gpu.forward(inputs_of(call, on_gpu))
        assert torch.equal(got.cpu(), want)
        assert torch.equal(got_tokens.cpu(), want_tokens)
    assert state(gpu) == state(cpu)


@pytest.mark.parametrize("name", SPECS)
def test_a_captured_graph_equals_eager(name: str) -> None:
    config = replace(configured(SPECS[name], 64), device="cuda")
    eager, captured = DigestProbe(config), DigestProbe(config)
    rng = np.random.default_rng(4)
    calls = [random_call(config, rng, 0)]
    while len(calls) < 12:  # a graph's shapes are static
        call = random_call(config, rng, 0)
        if all(len(call[f]) == len(calls[0][f]) for f in ("input_ids", "seq_lens")):
            calls.append(call)
    static = inputs_of(calls[0], config)
    before = [cells.clone() for cells in (*captured.kv, captured.ring, captured.ckpt)]
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        captured.forward(static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        outputs, tokens = captured.forward(static)
    for cells, old in zip((*captured.kv, captured.ring, captured.ckpt), before, strict=True):
        cells.copy_(old)
    for call in calls:
        fresh = inputs_of(call, config)
        copy_into(static, fresh)
        graph.replay()
        want, want_tokens = eager.forward(fresh)
        assert torch.equal(outputs, want)
        assert torch.equal(tokens, want_tokens)
    assert state(captured) == state(eager)
