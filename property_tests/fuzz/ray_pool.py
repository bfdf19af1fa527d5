"""Units on a Ray cluster: each is a task of one CPU. What a lost node had in hand, Ray runs again elsewhere."""

from __future__ import annotations

import importlib
import os
import socket
from typing import Any

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.fuzz.pool import Job

# How often a unit may lose its worker (its node went away, or the system under test crashed) before that is an error.
RETRIES = 3
CONNECT_SECONDS = 10.0


class Cluster:
    """address: as ``ray.init`` takes it; "local" starts a cluster on this machine, ``workers`` CPUs (0: all) of it."""

    def __init__(self, address: str, workers: int = 0) -> None:
        self._ray: Any = importlib.import_module("ray")
        _check_reachable(address)
        started: dict[str, Any] = {}
        if address == "local":
            started = {"include_dashboard": False, "num_cpus": workers or os.cpu_count()}
        try:
            self._ray.init(address, log_to_driver=False, logging_level="ERROR", **started)
        except (ConnectionError, RuntimeError, ValueError) as error:
            raise UsageError(f"--ray {address}: no cluster to be had there ({' '.join(str(error).split())})") from None
        self._task = self._ray.remote(num_cpus=1, max_retries=RETRIES)(_run)
        self._jobs: dict[Any, Job] = {}

    @property
    def capacity(self) -> int:
        return max(1, int(self._ray.cluster_resources().get("CPU", 1)))

    def submit(self, job: Job) -> None:
        self._jobs[self._task.remote(job)] = job

    def ready(self, seconds: float) -> list[tuple[Job, Any]]:
        done, _ = self._ray.wait(list(self._jobs), timeout=seconds)
        return [(job, self._result(reference, job)) for reference, job in ((r, self._jobs.pop(r)) for r in done)]

    def _result(self, reference: Any, job: Job) -> Any:
        try:
            result = self._ray.get(reference)
        except self._ray.exceptions.RayTaskError:
            raise  # a bug of the job itself
        except self._ray.exceptions.RayError as error:
            why = type(error).__name__
            raise UsageError(f"{job.label} lost its worker {RETRIES + 1} times ({why}); -j 1 shows where") from None
        if isinstance(result, UsageError):
            raise result
        return result

    def stop(self) -> None:
        self._ray.shutdown()


def _check_reachable(address: str) -> None:
    """Ray itself goes on trying for minutes where nobody answers."""
    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, ValueError, OverflowError) as error:
        raise UsageError(f"--ray {address}: nobody answers there ({error}); see 'ray status' on the cluster") from None


def _run(job: Job) -> Any:
    """In a worker. Usage errors come back as they are: Ray would wrap them into a traceback."""
    import torch

    torch.set_num_threads(1)
    try:
        return job.call(*job.args)
    except UsageError as error:
        return error
