"""The adapters over a package of our own in the engine's shape: what they map, what they see, what they refuse."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_engine import write_checkout

from frontier_oracle.cuda_impl.errors import CaptureRefused
from frontier_oracle.oracle.contract import DraftConfig, DraftModel
from frontier_oracle.oracle.designs import TOKENSPEED_FRONTIER, TOKENSPEED_HOOK
from frontier_oracle.oracle.deviations import compare, predict
from frontier_oracle.oracle.errors import DataParallelUnsupported, HiddenSemanticUnsupported
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.oracle.timeline import Timeline
from frontier_oracle.property_tests.adapters.captured import Captured, captured
from frontier_oracle.property_tests.adapters.evidence import ENGINES
from frontier_oracle.property_tests.bulk import run_bulk
from frontier_oracle.property_tests.drawing import random_scenario
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.gate.judged import judge
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.oblivious import run_oblivious
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.property_tests.registry import DEFAULT, NEED_ENGINE, load_system
from frontier_oracle.reference_impl.generic import maker

torch.set_num_threads(1)

DEVIATING = {
    "mid_chunk_tail": "k4 page16 | a: p12 chunks 5,5,2 | a1",
    "short_prompt": "k4 page4 | a: p1 | a1, a1",
    "short_chunk_after_hit": "k4 page4 | a: p12 | z: p12 | end z | b: p9 hit a 8 | b1, b1, b2",
    "donor_continuation": "k4 page4 | a: p16 | b: p14 hit a 8 | b1, b2 | a1",
}
EXACT = (
    "k4 page4w8,16 | a: p6 | a4, a4, a1, a4, a1",
    "k4 target page4 | a: p4 | b: p5 | a2 b1, a1 /4, b3 /4",
    "k3 steps3 page4 W1 | a: p5 | b: p7 | b2 a1, a3 b1 | end b | c: p6 | c2 a1",
    "k2 steps1 page1 | a: p3 | a2, a1",
)
SINGLE = (
    "k4 page4 R9 single | a: p9 chunks 3,5,1 | a1, a4, a2",
    "k4 page4,2w5 R9 single | a: p5 | b: p4 chunks 2,2 | a2 b1, b4 a1 /4",
    "k3 steps1 page4 R9 single | a: p4 | a1, a2",
)


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TOKENSPEED_PATH", str(write_checkout(tmp_path)))
    return tmp_path


def test_engines_are_asked_for_by_name_only() -> None:
    assert not set(NEED_ENGINE) & set(DEFAULT)
    for name in NEED_ENGINE:
        load_system(name)


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("deviation", DEVIATING)
def test_the_declared_deviations_and_no_other(deviation: str) -> None:
    judged = judge(resolve("tokenspeed"), parse(DEVIATING[deviation]), guard=True)
    assert not judged.undeclared and deviation in judged.seen


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("system", ["tokenspeed", "tokenspeed_backend"])
@pytest.mark.parametrize("text", EXACT)
def test_prompts_of_at_least_k_tokens_in_one_chunk_are_exact(system: str, text: str) -> None:
    found = resolve(system)
    assert not run_scenario(found.factory, parse(text), found.policy).findings


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("text", SINGLE)
def test_one_layer(text: str) -> None:
    found = resolve("tokenspeed_eagle")
    assert not run_scenario(found.factory, parse(text), found.policy).findings


@pytest.mark.usefixtures("checkout")
def test_symbols_of_padded_rows_are_not_looked_at() -> None:
    assert not run_oblivious(load_system("tokenspeed"), "declared", relabellings=2).failures


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("system", ["tokenspeed", "tokenspeed_backend"])
def test_every_cell_of_a_batch(system: str) -> None:
    spec = Spec(4, groups=(CacheGroup(4), CacheGroup(3, 5)))
    result = run_bulk(load_system(system), spec, np.array([[1, 4, 2], [3, 1, 1], [4, 4, 4]]), prompt=7, pad_to=5)
    assert result.request_rounds == 9 and not result.failures


def test_the_hook_shares_one_cell_where_the_cache_view_counts_on() -> None:
    """Rows below position 0: in row order the hook's leave every entry right, and the rows are found all the same."""
    scenario = parse("k4 page4 | a: p1 | a1, a1, a4")
    shared, counted = predict(TOKENSPEED_HOOK, scenario), predict(TOKENSPEED_FRONTIER, scenario)
    assert shared.seen == {"short_prompt"} and not shared.outcome.cause_entries()
    assert {f.code for f in shared.outcome.findings} == {"FO101", "FO102", "FO103"}
    assert "FO104" in {f.code for f in counted.outcome.findings} and counted.outcome.cause_entries()


def test_both_executions_of_the_hooks_design_agree() -> None:
    for index in range(6):
        scenario = random_scenario(8, index)
        outcome = run_scenario(maker(TOKENSPEED_HOOK), scenario, "tokens", guard=False)
        assert compare(outcome, predict(TOKENSPEED_HOOK, scenario)).equal, scenario


@pytest.mark.usefixtures("checkout")
@pytest.mark.parametrize("text", DEVIATING.values())
def test_the_hook_is_its_design(text: str) -> None:
    assert not judge(resolve("tokenspeed_backend"), parse(text)).undeclared


@pytest.mark.usefixtures("checkout")
def test_captured_rounds_are_exact_and_replayed() -> None:
    systems: list[Captured] = []

    def make(config: DraftConfig, model: DraftModel) -> Captured:
        systems.append(Captured(load_system("tokenspeed"), config, model, "cpu"))
        return systems[-1]

    result = run_bulk(make, Spec(3), np.array([[1, 3, 2, 2], [3, 1, 1, 3]]), prompt=5, pad_to=3)
    assert result.request_rounds == 8 and not result.failures
    assert systems[0].replays == 4 and len(systems[0].captured) == 1


def broken(folder: Path, patch: pytest.MonkeyPatch, file: str, old: str, new: str) -> None:
    patch.setenv("TOKENSPEED_PATH", str(write_checkout(folder, {file: (old, new)})))


def test_a_host_read_cannot_be_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken(tmp_path, monkeypatch, "mtp.py", "accept[:, None] - 1 +", "int(accept[0]) - 1 +")
    with pytest.raises(CaptureRefused, match="reads a value on the host"):
        run_bulk(captured(load_system("tokenspeed")), Spec(3), np.array([[1, 3]]), prompt=5)


def test_replays_run_no_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A count that the drafter keeps in Python grows each eager round, and stands still in a captured one."""
    counted = "self.n = getattr(self, 'n', -1) + 1\n        first = self.n + accept"
    broken(tmp_path, monkeypatch, "mtp.py", "first = accept", counted)
    accepts = np.array([[1, 2, 1], [2, 1, 1]])
    assert run_bulk(load_system("tokenspeed"), Spec(3), accepts, prompt=5).failures
    assert not run_bulk(captured(load_system("tokenspeed")), Spec(3), accepts, prompt=5).failures


# One fault a line: file, the words replaced, what stands in their place, the scenario that shows it, its code.
FAULTS = {
    "hidden one row early": (
        "mtp.py",
        "accept[:, None] - 1 +",
        "(accept[:, None] - 2).clamp(min=0) +",
        EXACT[0],
        "FO101",
    ),
    "no hook": ("mtp.py", "self.backend.update_draft_forward_metadata(frontier.int())", "pass", EXACT[0], "FO107"),
    "locations one early": ("mtp.py", "start = (frontier - k)", "start = (frontier - k - 1)", EXACT[0], "FO104"),
    "stash one old": ("mtp.py", "ids[:, 1:], hiddens[:, 1:]", "ids[:, :-1], hiddens[:, :-1]", EXACT[0], "FO206"),
    "first row sampled": ("mtp.py", "* k + k - 1", "* k", EXACT[0], "FO105"),
    "metadata of the step before": ("eagle.py", "start + i)", "start + i - 1)", SINGLE[0], "FO107"),
    "accept ignored": ("eagle.py", "+ accept_lengths\n", "+ self.k\n", SINGLE[0], "FO105"),
    "hook off by one": ("cache_groups.py", "- k + torch", "- k - 1 + torch", EXACT[0], "FO104"),
}
SYSTEM_OF = {"mtp.py": "tokenspeed", "eagle.py": "tokenspeed_eagle", "cache_groups.py": "tokenspeed_backend"}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_engine_is_found(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, old, new, text, code = FAULTS[fault]
    broken(tmp_path, monkeypatch, file, old, new)
    found = resolve(SYSTEM_OF[file])
    assert code in {finding.code for finding in run_scenario(found.factory, parse(text), found.policy).findings}


@pytest.mark.usefixtures("checkout")
def test_what_it_does_not_serve_is_refused_in_one_line() -> None:
    config = Timeline(parse("k4 page4 | a: p4")).config()
    with pytest.raises(DataParallelUnsupported, match="one rank only"):
        load_system("tokenspeed")(replace(config, dp_size=2), DigestProbe(config))
    with pytest.raises(HiddenSemanticUnsupported, match="hidden=chain: this drafter serves single heads"):
        load_system("tokenspeed_eagle")(config, DigestProbe(config))
    with pytest.raises(HiddenSemanticUnsupported, match="serves chain or target heads"):
        single = replace(config, spec=Spec(4, hidden="single"))
        load_system("tokenspeed")(single, DigestProbe(single))


ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("engine", ["tokenspeed", "sglang", "vllm"])
def test_the_recorded_results_are_clean_and_the_page_says_what_they_say(engine: str) -> None:
    (file,) = (ROOT / "reports/results").glob(f"*-{engine}.json")
    result, page = json.loads(file.read_text()), (ROOT / "docs/engines.md").read_text()
    assert ENGINES[engine][1].clean(result)
    rows = result["one_shot"] if engine == "tokenspeed" else {"exact": result["exact"]}
    for part in (rows[name] for name in ("eager", "captured", "exhaustive", "exact") if name in rows):
        for system in {row.get("system", engine) for row in part}:
            mine = [row["request_rounds"] for row in part if row.get("system", engine) == system]
            assert f"| {sum(mine):,} request-rounds | 0 |" in page


def test_each_k_of_the_recorded_one_shot_runs_has_ten_thousand_request_rounds() -> None:
    (file,) = (ROOT / "reports/results").glob("*-tokenspeed.json")
    result = json.loads(file.read_text())
    for part in ("eager", "captured"):
        counted = {(row["system"], row["k"]): row["request_rounds"] for row in result["one_shot"][part]}
        assert set(counted) == {(s, k) for s in ("tokenspeed", "tokenspeed_backend") for k in (2, 3, 4, 8)}
        assert min(counted.values()) >= 10_000
    shrunk = {row["id"]: row["events"] for row in result["random"][0]["found"]}
    assert set(shrunk) == set(DEVIATING) and max(shrunk.values()) <= 6
