"""Where units run: in this process, or in worker processes of this machine (ray_pool.py: on a cluster)."""

from __future__ import annotations

import multiprocessing
from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, Protocol

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.workers import no_interrupts, start_worker


@dataclass(frozen=True)
class Job:
    """A call of a module-level function. label: what it is, for messages."""

    label: str
    call: Callable[..., Any]
    args: tuple[Any, ...]


class Pool(Protocol):
    """Runs jobs, in no order."""

    @property
    def capacity(self) -> int:
        """How many jobs can run at once. None is handed out ahead: when time is up, all that was begun is finished."""
        ...

    def submit(self, job: Job) -> None: ...

    def ready(self, seconds: float) -> list[tuple[Job, Any]]:
        """Jobs that are done, with their results; waits so long for a first one. Raises what a job raised, UsageError
        where a worker is lost for good."""
        ...

    def stop(self) -> None:
        """End the workers at once; what they have in hand is nobody's any more."""
        ...


class Here:
    """This process, one job after the other."""

    capacity = 1

    def __init__(self) -> None:
        import torch

        self._jobs: deque[Job] = deque()
        self._threads = torch.get_num_threads()
        torch.set_num_threads(1)

    def submit(self, job: Job) -> None:
        self._jobs.append(job)

    def ready(self, seconds: float) -> list[tuple[Job, Any]]:
        if not self._jobs:
            return []
        job = self._jobs.popleft()
        return [(job, job.call(*job.args))]

    def stop(self) -> None:
        import torch

        torch.set_num_threads(self._threads)


class Processes:
    """``workers`` processes, one torch thread each."""

    def __init__(self, workers: int) -> None:
        self.capacity = workers
        self._others = set(multiprocessing.active_children())
        context = multiprocessing.get_context("spawn")
        self._pool = ProcessPoolExecutor(workers, mp_context=context, initializer=start_worker)
        self._jobs: dict[Future[Any], Job] = {}

    def submit(self, job: Job) -> None:
        with no_interrupts():  # a worker may start here
            self._jobs[self._pool.submit(job.call, *job.args)] = job

    def ready(self, seconds: float) -> list[tuple[Job, Any]]:
        done, _ = wait(self._jobs, timeout=seconds, return_when=FIRST_COMPLETED)
        labels = ", ".join(job.label for job in self._jobs.values())
        try:
            return [(self._jobs.pop(future), future.result()) for future in done]
        except BrokenProcessPool:
            raise UsageError(
                f"a worker died, in one of {labels}: a crash or exit in the system under test; -j 1 shows where"
            ) from None

    def stop(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
        for worker in set(multiprocessing.active_children()) - self._others:
            worker.terminate()
            worker.join()
