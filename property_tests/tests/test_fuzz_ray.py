"""Fuzzing on a Ray cluster of several local nodes: the same findings, and nothing lost with a node that goes away."""

import contextlib
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.fuzz.ledger import path_of
from frontier_oracle.property_tests.fuzz.pool import Job
from frontier_oracle.property_tests.fuzz.results import FuzzReport, Progress
from frontier_oracle.property_tests.fuzz.run import FuzzOptions, run_fuzz
from frontier_oracle.property_tests.fuzz.session import Limits
from frontier_oracle.property_tests.fuzz.units import Plan
from frontier_oracle.property_tests.tests.fuzz_targets import FAULTY, refuse, sleep_and_name

ray = pytest.importorskip("ray", reason="needs Ray, the extra 'ray': make nightly installs it")

pytestmark = [
    pytest.mark.slow,
    # Ray's own, on its way out and in.
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
PLAN = Plan(FAULTY, 5, True, 2, 12)


@pytest.fixture
def cluster() -> Iterator[Any]:
    """Two nodes of one CPU each."""
    from ray.cluster_utils import Cluster

    nodes = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    nodes.add_node(num_cpus=1)
    yield nodes
    with contextlib.suppress(Exception):
        nodes.shutdown()


def fuzz(folder: Path, rounds: int, ray_address: str = "", progress: Progress | None = None) -> FuzzReport:
    return run_fuzz(FuzzOptions(PLAN, folder, Limits(rounds=rounds), 1, ray_address), progress)


def kept(folder: Path) -> tuple[dict[str, str], list[str]]:
    """Repro files and explanations, and the units of the ledger."""
    files = {path.name: path.read_text() for path in folder.iterdir() if path.suffix in (".json", ".txt")}
    return files, [line for line in path_of(folder, PLAN).read_text().splitlines() if '"type":"unit"' in line]


def test_two_nodes_find_what_one_process_finds_and_a_lost_node_loses_nothing(tmp_path: Path, cluster: Any) -> None:
    alone = fuzz(tmp_path / "alone", 400)
    killed = threading.Event()
    last = list(cluster.worker_nodes)[0]

    def kill(progress: Progress) -> None:
        if progress.units >= 2 and not killed.is_set():
            killed.set()
            cluster.remove_node(last, allow_graceful=False)

    both = fuzz(tmp_path / "both", 400, cluster.address, Progress(on_change=kill))
    assert killed.is_set()
    assert kept(tmp_path / "both") == kept(tmp_path / "alone")
    assert (both.units, both.rounds, both.met) == (alone.units, alone.rounds, alone.met)


def test_work_is_spread_over_the_nodes_and_refusals_come_back_as_they_are(cluster: Any) -> None:
    from frontier_oracle.property_tests.fuzz.ray_pool import Cluster as Pool

    pool = Pool(cluster.address)
    try:
        assert pool.capacity == 2
        for i in range(4):
            pool.submit(Job(f"job {i}", sleep_and_name, (1.0,)))
        nodes: set[str] = set()
        deadline = time.monotonic() + 60
        done = 0
        while done < 4 and time.monotonic() < deadline:
            ready = pool.ready(5.0)
            done += len(ready)
            nodes |= {result for _, result in ready}
        assert done == 4 and len(nodes) == 2
        pool.submit(Job("refused", refuse, ()))
        with pytest.raises(UsageError, match=r"^one line$"):
            while True:
                pool.ready(5.0)
    finally:
        pool.stop()


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1", "127.0.0.1:port"])
def test_no_cluster_is_one_line(tmp_path: Path, address: str) -> None:
    with pytest.raises(UsageError, match=f"^--ray {address}: nobody answers there"):
        fuzz(tmp_path, 10, address)
