"""The comparison of designs: exact ones lose nothing, the sums agree with the rounds, and the page says it."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.cli.app import run as run_verb
from frontier_oracle.property_tests.simulate import ab
from frontier_oracle.property_tests.simulate.requests import Request, VerifyRound
from frontier_oracle.property_tests.simulate.run import Simulation
from frontier_oracle.property_tests.tests.small_model import SMALL, accepts, forced, prompts, run
from frontier_oracle.reference_impl.model.weights import random_model, save
from frontier_oracle.reports.ab_runs import section


@cache
def served() -> Simulation:
    return run(["target", "frontier", "unrepaired", "vllm_step3p5", "recompute"], prompts(9, 21), forced(), batch=9)


def rows() -> dict[str, dict]:
    return {row["name"]: row for row in ab.compare(served())}


def test_an_exact_design_loses_nothing_anywhere() -> None:
    row = rows()["frontier"]
    assert row["rounds_as_ideal"] == row["verify_rounds"]
    assert row["change"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    for part in ("depths", "positions", "rates"):
        assert all(each["change"]["value"] in (0.0, None) for each in row[part])
    assert not any(map(sum, row["entries"]["per_1000"].values()))


def test_a_design_with_holes_shows_its_wrong_entries_and_its_change() -> None:
    found = rows()
    assert found["tokenspeed_unrepaired"]["entries"]["per_1000"]["stale"][2] > 0
    assert found["vllm_step3p5"]["entries"]["per_1000"]["unwritten"][1] > 0
    for name in ("tokenspeed_unrepaired", "vllm_step3p5"):
        row, run_ = found[name], served().run(name)
        mean = sum(accepts(run_)) / len(accepts(run_))
        ideal = accepts(served().run("recompute"))
        assert row["accept_length"]["value"] == pytest.approx(mean)
        assert row["change"]["value"] == pytest.approx(mean / (sum(ideal) / len(ideal)) - 1)
        assert row["change"]["low"] <= row["change"]["value"] <= row["change"]["high"]


def test_losses_are_counted_against_the_output_that_followed() -> None:
    request = served().run("frontier").requests[0]
    known = request.tokens
    made = Request(0, request.prompt, 1, request.holding, [], request.noise)
    right, wrong = tuple(known[22:25]), (known[22], -1, known[24])
    made.rounds = [VerifyRound(21, 2, 2, 1, wrong, right), VerifyRound(len(known) - 2, 1, 1, 1, right, right)]
    hits = ab._hits(made, 4)
    assert (hits.own.tolist(), hits.ideal.tolist(), hits.frontier.tolist()) == ([1], [3], [21])
    lost = ab._lost([made], [hits], [hits.frontier >= 0])
    assert (lost["rounds"], lost["own"]["value"], lost["ideal"]["value"], lost["change"]["value"]) == (1, 2, 4, -2)
    depth = ab._depth([made], [hits], 1)
    assert (depth["conditional"]["value"], depth["ideal"]["value"]) == (0, 1)


def test_positions_and_rates_cover_the_same_rounds() -> None:
    for row in rows().values():
        assert sum(b["rounds"] for b in row["positions"]) == sum(b["rounds"] for b in row["rates"]) > 0


def test_an_output_that_was_not_compared_is_not_called_the_targets() -> None:
    without = run(["frontier", "recompute"], prompts(5, 13), max_tokens=6)
    assert [row["output_is_the_targets"] for row in ab.compare(without)] == [None, None]
    assert rows()["frontier"]["output_is_the_targets"] is False, "forced accepts are not lossless"
    assert ab.compare(run(["target", "recompute"], prompts(5, 13), max_tokens=6))[0]["output_is_the_targets"] is True


def test_it_needs_the_ideal() -> None:
    with pytest.raises(UsageError, match="recompute"):
        ab.compare(run(["frontier"], prompts(2, 13)))


def test_the_verb_writes_it_and_the_page_is_made_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from dataclasses import replace

    pytest.importorskip("matplotlib", reason="the page's pictures need matplotlib")
    from frontier_oracle.reports import ab_page

    save(random_model(replace(SMALL, vocab_size=264)), tmp_path / "w")
    text = tmp_path / "text.py"
    text.write_text("for i in range(3):\n    print(i)\n" * 30)
    fixed = ["--weights", str(tmp_path / "w"), "--k", "4", "--prompt-tokens", "16", "--max-tokens", "8", "-q"]
    names = ["--designs", "target,frontier,unrepaired,recompute", "--prompts", "6"]
    out = str(tmp_path / "ab.json")
    assert run_verb(["simulate", str(text), *fixed, *names, "--ab", out]) == 0
    assert run_verb(["simulate", str(text), *fixed, "--designs", "frontier", "--ab", out]) == 2
    assert "needs the ideal" in capsys.readouterr().err
    ab_page.main([out, out, str(tmp_path)])
    page = (tmp_path / "ab.md").read_text()
    assert "`frontier` and `recompute` gave the ideal's drafts in every one of" in page
    assert "`tokenspeed_unrepaired`: accept length" in page and "Every design put out the target's own text." in page
    assert all((tmp_path / f"ab-{name}.svg").stat().st_size > 2000 for name in ("accept", "depth", "position"))
    assert "Under a captured graph" not in page
    data = json.loads(Path(out).read_text())
    assert {"date", "environment", "files", "options", "simulate", "designs"} <= set(data)


def test_the_page_tells_of_the_captured_graph() -> None:
    pair = {"differing": 2, "request_rounds": 1234, "ties": 1, "faults": 1}
    times = [
        {"name": "target", "accept_length": 1.0, "drafter_us": None, "round_us": 10.0, "tokens_per_second": 5.0},
        {"name": "cuda_graph", "accept_length": 3.0, "drafter_us": 1500.0, "round_us": 20.0, "tokens_per_second": 9.0},
    ]
    run_ = {
        "dtype": "bfloat16",
        "k": 8,
        "batch": 16,
        "prompts": 4,
        "graph": "cuda_graph",
        "drafts": {"cuda_eager": pair},
    }
    result = {"gpu": "a GPU", "date": "d", "environment": {}, "method": "So.", "runs": [run_ | {"times": times}]}
    text = "\n".join(section(result, "r.json"))
    told = "`cuda_graph` against `cuda_eager`: 2 of 1,234 request-rounds differ, 1 of them rounding ties; **1** faults."
    assert told in text
    pair |= {"faults": 0, "ties": 2}
    assert "2 of them rounding ties; 0 faults." in "\n".join(section(result, "r.json"))
    del pair["faults"]
    assert "2 of them rounding ties; 0 faults." in "\n".join(section(result, "r.json"))
    pair["ties"] = 0
    assert "0 of them rounding ties; **2** faults." in "\n".join(section(result, "r.json"))
    assert "| bfloat16 | no speculation | 1.000 | - | 10 | 5 |" in text
    assert "| bfloat16 | `cuda_graph` | 3.000 | 1,500 | 20 | 9 |" in text


def test_the_page_tells_of_lower_precision() -> None:
    design = {
        "name": "minimal",
        "request_rounds": 2345,
        "differing": 7,
        "ties": 7,
        "faults": 0,
        "largest_books_distance": 2.5e-15,
        "largest_error": 0.0123,
        "largest_margin_of_error": 0.42,
    }
    run_ = {"dtype": "bfloat16", "k": 8, "batch": 32, "prompts": 4, "leader": "frontier", "complete": True}
    other = design | {"name": "recompute", "differing": 0, "ties": 0, "largest_margin_of_error": None}
    runs = [run_ | {"request_rounds": 2345, "designs": [design, other]}]
    result = {"gpu": "a GPU", "date": "d", "environment": {"commit": "abc"}, "method": "So.", "runs": runs}
    text = "\n".join(section(result, "r.json"))
    assert "a GPU, batch 32, k=8, 4 prompts, d, commit abc. Kept in `reports/results/r.json`. So." in text
    assert "Of 4,690 request-rounds held against `frontier`, 7 drafted differently, every one by a rounding tie" in text
    assert "| bfloat16 | `minimal` | 2,345 | 7 | 7 | 0 | 2.5e-15 | 1.2e-02 | 42% |" in text
    assert "| bfloat16 | `recompute` | 2,345 | 0 | 0 | 0 | 2.5e-15 | 1.2e-02 | - |" in text
    assert "time limit" not in text and "fault that is no rounding" not in text

    design |= {"ties": 5, "faults": 2}
    runs[0]["complete"] = False
    text = "\n".join(section(result | {"gpu": "none"}, "r.json"))
    assert "**2 of 4,690 request-rounds held against `frontier` show a fault that is no rounding.**" in text
    assert "| 7 | 5 | **2** |" in text and "every one by a rounding tie" not in text
    design |= {"largest_error": None, "largest_books_distance": None}
    assert "| **2** | - | - | 42% |" in "\n".join(section(result, "r.json"))
    assert "On a CPU, batch 32" in text and "ended by its time limit, after 2,345 request-rounds" in text
