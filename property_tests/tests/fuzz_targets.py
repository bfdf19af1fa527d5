"""Systems for the tests of fuzzing, and runs of it in a process of their own, to be killed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

from torch import Tensor

from frontier_oracle.oracle.contract import DecodeBatch
from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.mutants import survey  # noqa: F401
from frontier_oracle.property_tests.mutants.planting import PLANTED
from frontier_oracle.reference_impl.frontier import Frontier

HERE = "frontier_oracle.property_tests.tests.fuzz_targets"
FAULTY, RAISING, DYING = f"{HERE}:faulty", f"{HERE}:Raising", f"{HERE}:Dying"

faulty = PLANTED["idle_accepts_nothing"].factory("frontier")


class Raising(Frontier):
    def decode(self, batch: DecodeBatch) -> Tensor:
        raise ValueError("bad index")


class Dying(Frontier):
    """Takes its process with it."""

    def decode(self, batch: DecodeBatch) -> Tensor:
        import os

        os._exit(3)


# A shell that starts a job in the background makes it deaf to an interrupt, and its children with it.
PROGRAM = """
import signal
import sys
from pathlib import Path
from frontier_oracle.property_tests.fuzz import units
from frontier_oracle.property_tests.fuzz.results import Progress
from frontier_oracle.property_tests.fuzz.run import FuzzOptions, run_fuzz
from frontier_oracle.property_tests.fuzz.session import Limits

signal.signal(signal.SIGINT, signal.default_int_handler)
system, folder, rounds = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
plan = units.Plan(system, 5, True, 2, 12)
told = Progress(on_change=lambda p: print(p.units, p.label, flush=True))
report = run_fuzz(FuzzOptions(plan, folder, Limits(rounds=rounds), 1), told)
print("interrupted" if report.interrupted else "ended", report.all_units, flush=True)
"""


def start(system: str, folder: Path, rounds: int) -> subprocess.Popen[str]:
    """A run in small units. Prints a line whenever something is done."""
    command = [sys.executable, "-c", PROGRAM, system, str(folder), str(rounds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def sleep_and_name(seconds: float) -> str:
    """The Ray node that slept."""
    import ray

    time.sleep(seconds)
    return str(ray.get_runtime_context().get_node_id())


def refuse() -> None:
    raise UsageError("one line")
