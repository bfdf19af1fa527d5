"""Writes the history of a system that the oracle drives (Tier 0 from Tier 1)."""

from __future__ import annotations

from pathlib import Path

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.files import write_whole
from frontier_oracle.oracle.history.record import Recorder
from frontier_oracle.oracle.play import play
from frontier_oracle.oracle.timeline import Timeline
from frontier_oracle.property_tests.driver import TorchDrafter
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.replay import DEFAULT_SYSTEM, load


def record(source: str, system: str, path: Path) -> None:
    """Run a scenario or a repro file to its end on a system, and write its history. Raises UsageError."""
    loaded = load(source)
    name = system or (loaded.recorded.system if loaded.recorded is not None else DEFAULT_SYSTEM)
    under_test = resolve(name)
    timeline = Timeline(loaded.scenario, under_test.policy)
    recorder = Recorder(TorchDrafter(under_test.factory, timeline.config(), guard=False), timeline.spec, name)
    for _ in play(timeline, recorder):
        pass
    try:
        write_whole(path, recorder.text())
    except OSError as error:
        raise UsageError(f"--history {path}: cannot be written: {error.strerror}") from None
