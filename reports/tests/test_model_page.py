"""The model cards say what the kept records say."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.reports.model_page import ACCEPTS, RESULTS, page, records, write
from frontier_oracle.reports.model_plots import smoothed

PAGE = Path(__file__).resolve().parents[2] / "docs" / "model.md"
pytestmark = pytest.mark.skipif(not RESULTS.exists(), reason="reports/results is not installed with the package")


def test_the_page_is_the_records() -> None:
    """Rewrite it with ``python -m frontier_oracle.reports.model_page docs``."""
    assert PAGE.read_text(encoding="utf-8") == page()


def test_the_pretrained_target_was_served_under_every_chain_design() -> None:
    kept = json.loads((RESULTS / ACCEPTS).read_text(encoding="utf-8"))
    chain = [name for name, design in DESIGNS.items() if "chain" in design.hidden and design.tokens != "own_argmax"]
    assert [row["name"] for row in kept["designs"]] == [*chain, "recompute"]
    assert all(f"| `{name}` |" in PAGE.read_text(encoding="utf-8") for name in chain)


def test_the_pictures_have_a_line_for_each_predictor(tmp_path: Path) -> None:
    for path in write(tmp_path):
        assert (PAGE.parent / path.name).exists()
        if path.suffix == ".svg":
            words = "".join(ElementTree.parse(path).getroot().itertext())
            assert all(name in words for name in ("target", "depth 0", "depth 4", "held out"))


def test_every_run_was_whole_and_got_better() -> None:
    for record in records().values():
        assert record["done"] and record["steps"] == record["recipe"]["steps"]
        first, last = record["evaluations"][0], record["evaluations"][-1]
        assert last["expected_accept_length"] > first["expected_accept_length"]
        assert last["expected_accept_length"] == pytest.approx(1 + sum(last["prefix"]))


def test_a_running_mean() -> None:
    values = np.arange(20.0)
    assert smoothed(values)[[0, 1, 19]].tolist() == [0.0, 0.5, 15.0]
