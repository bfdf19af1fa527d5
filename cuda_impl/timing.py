"""How the benchmark times: kernel time from a body repeated inside one graph, end-to-end time from single replays."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import torch

Body = Callable[[], None]
REPEATS = 20


def graph_of(body: Body, repeats: int = 1) -> torch.cuda.CUDAGraph:
    """``repeats`` runs of ``body`` in one graph, after a warm-up on a side stream."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            body()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(repeats):
            body()
    return graph


def _elapsed(run: Body) -> float:
    """Microseconds on the device between two events around ``run``."""
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    run()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1000


def body_us(body: Body, samples: int = 15, replays: int = 5) -> float:
    """Time of one body: ``replays`` back-to-back replays of a graph of 20 bodies, median of ``samples``."""
    graph = graph_of(body, REPEATS)

    def run() -> None:
        for _ in range(replays):
            graph.replay()

    run()
    return statistics.median(_elapsed(run) for _ in range(samples)) / (replays * REPEATS)


def replay_us(body: Body, samples: int = 60) -> float:
    """End-to-end time of one replay of a graph of one body, events around it, device idle before: median."""
    graph = graph_of(body)
    graph.replay()
    torch.cuda.synchronize()
    return statistics.median(_elapsed(graph.replay) for _ in range(samples))


def kernel_count(body: Body) -> int:
    """Device operations (kernels, copies, sets) in one body, as the profiler sees one replay."""
    graph = graph_of(body)
    graph.replay()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        graph.replay()
        torch.cuda.synchronize()
    return sum(event.device_type == torch.autograd.DeviceType.CUDA for event in profile.events())
