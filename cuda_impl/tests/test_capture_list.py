"""The list of operations, tried where there is no GPU: a tape stands in for the graph, each in a process of its own."""

import sys
from pathlib import Path

import pytest

from frontier_oracle.cuda_impl.gpu_table import tape_section

sys.path.insert(0, str(Path(__file__).parent))
import capture_list  # noqa: E402
from capture_list import captured, tried  # noqa: E402


def test_each_outcome_comes_from_a_process_of_its_own():
    rows = tried(["arithmetic", "item", "another thread"], "cpu")
    assert [(row["tape"], row["graph"]) for row in rows] == [
        ("served", "served"),
        ("refused", "refused"),
        ("not replayed", "not replayed"),
    ]
    assert "reads a value" in rows[1]["reason"]


def test_an_operation_that_breaks_or_hangs_is_an_outcome():
    assert captured("no such operation", "cpu") == ("broke its process", "KeyError: 'no such operation'")
    assert captured("item", "cpu", limit=0.01) == ("hung", "no outcome in 0.01 s")


def test_the_page_shows_every_operation_and_a_reason_for_each_difference(monkeypatch: pytest.MonkeyPatch):
    graphs = {
        "item": ("refused", "synchronizes"),
        "arithmetic": ("served", ""),
        "another thread": ("not replayed", "differs"),
        "linalg.inv": ("refused", "called a synchronizing CUDA operation"),
        "gather": ("broke its process", "Segmentation | fault"),
    }
    monkeypatch.setattr(capture_list, "captured", lambda name, device: graphs[name])
    text = "\n".join(tape_section({"operations": tried(list(graphs), "cuda")}))
    assert "Of 5 operations" in text
    assert "- served by both (1): arithmetic" in text
    assert "- refused by both (1): item" in text
    assert "- not replayed by either (1): another thread" in text
    inside = "synchronizes inside, on a GPU alone"
    assert f"| linalg.inv | served | refused | {inside} | called a synchronizing CUDA operation |" in text
    assert "| gather | served | broke its process | not foreseen | Segmentation / fault |" in text
