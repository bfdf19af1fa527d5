"""The atlas page says what the declarations say, and its pictures show what was run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from frontier_oracle.oracle.atlas import atlas
from frontier_oracle.oracle.designs import DESIGNS, FRONTIER, TOKENSPEED_LOOKBACK, Design
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.reports.atlas_page import describe, page
from frontier_oracle.reports.atlas_plots import accepts_at, as_svg, heat_map, rate_chart, rated

PAGE = Path(__file__).resolve().parents[2] / "docs" / "atlas.md"


@pytest.mark.skipif(not PAGE.exists(), reason="docs/ is not installed with the package")
def test_the_page_is_the_declarations() -> None:
    """Rewrite it with ``python -m frontier_oracle.reports.atlas_page docs``."""
    assert PAGE.read_text(encoding="utf-8") == page()


@pytest.mark.parametrize("design", DESIGNS.values(), ids=list(DESIGNS))
def test_every_axis_has_words(design: Design) -> None:
    words = dict(describe(design))
    assert all(words.values()) and len(words) == 11 + design.one_layer + bool(design.notes)


def test_two_designs_in_words() -> None:
    ours, lookback = dict(describe(FRONTIER)), dict(describe(TOKENSPEED_LOOKBACK))
    assert ours["stash"] == "(token, target hidden) pairs of the last k-1 positions, with a valid length per slot"
    assert ours["chunk boundary"].endswith("final chunks re-run rows")
    assert lookback["rows in a decode round"].startswith("depth 0 the verify window F..F+k-1; deeper ones the verify")
    assert lookback["stash"] == "tokens and depth-0 outputs of the last steps-1 positions, all of them assumed to hold"


def test_the_heat_map_names_what_it_shows() -> None:
    svg = as_svg(heat_map([atlas([(1, 1)]), atlas([(4, 4)])]))
    ElementTree.fromstring(svg)
    for text in (*DESIGNS, "stale", "unwritten", "accepts 4,4"):
        assert f">{text}</text>" in svg
    assert svg == as_svg(heat_map([atlas([(1, 1)]), atlas([(4, 4)])]))


def test_the_rate_chart_separates_sound_from_stale() -> None:
    found = rated(rounds=6, requests=3, rates=(0.0, 1.0))
    assert found.stale["sglang_default"][0] > 100 and found.stale["sglang_default"][1] == 0
    assert found.bad["tensorrt_llm_vanilla"][0] == 0 and found.bad["tensorrt_llm_vanilla"][1] > 100
    assert set(found.bad["frontier"]) == set(found.bad["minimal"]) == {0.0}
    assert "minimal" in as_svg(rate_chart(found))


def test_accepts_at_a_rate() -> None:
    assert accepts_at(0.0, Spec(4), 3, 2, 1) == [(1, 1, 1)] * 2
    assert accepts_at(1.0, Spec(4), 3, 2, 1) == [(4, 4, 4)] * 2
    mean = sum(map(sum, accepts_at(0.5, Spec(4), 200, 10, 1))) / 2000
    assert 1.8 < mean < 1.95  # 1 + 1/2 + 1/4 + 1/8


def test_the_module_wants_a_folder() -> None:
    command = [sys.executable, "-m", "frontier_oracle.reports.atlas_page"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1 and done.stderr.strip() == "usage: python -m frontier_oracle.reports.atlas_page FOLDER"
