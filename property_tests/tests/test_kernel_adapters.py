"""The adapters of SGLang's and vLLM's kernels, over launchers of our own and, where they are there, over theirs."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
import torch
from fake_kernels import SGLANG, VLLM

from frontier_oracle.oracle.errors import HiddenSemanticUnsupported, SpecError, UsageError
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.oracle.timeline import Timeline
from frontier_oracle.property_tests.adapters import evidence_kernels, kernel_drafter
from frontier_oracle.property_tests.adapters.interpreted import Interpreted
from frontier_oracle.property_tests.bulk import run_bulk
from frontier_oracle.property_tests.gate.judged import judge
from frontier_oracle.property_tests.gate.system import resolve
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.property_tests.registry import load_system

pytest.importorskip("triton", reason="the kernels' adapters need the extra cuda")
torch.set_num_threads(1)

STUDIES = {"sglang": evidence_kernels.SGLANG, "vllm": evidence_kernels.VLLM}
TEXTS = {"sglang": SGLANG, "vllm": VLLM}
INSIDE = [(name, text) for name, study in STUDIES.items() for text in study.inside]
OUTSIDE = [(name, text) for name, study in STUDIES.items() for text, _ in study.outside.values()]


def written(folder: Path, patch: pytest.MonkeyPatch, system: str, old: str = "", new: str = "") -> None:
    """A package of ours below ``folder`` in place of the engine, its launchers called as they are."""
    text = TEXTS[system]
    assert old in text
    path = folder / STUDIES[system].FILES[0]
    path.parent.mkdir(parents=True)
    path.write_text(text.replace(old, new, 1) if old else text)
    patch.setenv(f"{system.upper()}_PATH", str(folder))
    patch.setattr(kernel_drafter, "Interpreted", lambda module, engine: module)


@pytest.mark.parametrize(("system", "text"), INSIDE)
def test_what_the_design_declares_and_no_more(
    system: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, monkeypatch, system)
    assert not judge(resolve(system), parse(text)).undeclared


@pytest.mark.parametrize(("system", "text"), OUTSIDE)
def test_what_shows_outside_the_domain(system: str, text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, monkeypatch, system)
    assert {finding.code for finding in judge(resolve(system), parse(text)).undeclared} == {"FO201"}


@pytest.mark.parametrize("system", STUDIES)
def test_every_cell_of_a_batch(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, monkeypatch, system)
    spec = Spec(4, groups=(CacheGroup(4), CacheGroup(3, 8)), ring_rows=10)
    accepts = np.array([[1, 4, 2, 1], [3, 1, 1, 4]])
    result = run_bulk(load_system(system), spec, accepts, prompt=9, pad_to=3)
    assert result.request_rounds == 8 and not result.failures


FAULTS = {
    "the stash forgets": ("sglang", "min(int(valid[slot]) + n", "min(n", "k4 R10 W1 | a: p6 | a1, a1"),
    "the front one row off": ("sglang", "- front + j", "- front + j - 1", "k4 R10 W1 | a: p6 | a2, a1"),
    "the draft at the end": ("sglang", "if select is None", "if True", "k4 R10 W1 | a: p6 | a2, a1"),
    "a row is not padded": ("vllm", "int(rows[r]) + 1:int", "int(rows[r]) + 2:int", "k4 page4 | a: p7 | a1, a1, a1"),
    "the cache one row old": (
        "vllm",
        "input_ids[end - n:end]",
        "input_ids[end - n - 1:end - 1]",
        "k4 | a: p6 | a1, a1",
    ),
    "the future prompt unused": ("vllm", "if not final", "if False", "k4 | a: p8 chunks 4,4 | a1"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_in_the_kernels_is_found(fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system, old, new, text = FAULTS[fault]
    written(tmp_path / "right", monkeypatch, system)
    assert not judge(resolve(system), parse(text)).undeclared
    written(tmp_path / "wrong", monkeypatch, system, old, new)
    assert judge(resolve(system), parse(text)).undeclared


@pytest.mark.parametrize("system", STUDIES)
def test_what_it_does_not_serve_is_refused(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, monkeypatch, system)
    config = Timeline(parse("k4 target | a: p4")).config()
    with pytest.raises(HiddenSemanticUnsupported, match="serves chain heads"):
        load_system(system)(config, DigestProbe(config))


def test_vllm_drafts_k_minus_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, monkeypatch, "vllm")
    config = Timeline(parse("k4 steps2 | a: p4")).config()
    with pytest.raises(SpecError, match="drafts k-1 = 3 tokens"):
        load_system("vllm")(config, DigestProbe(config))


@pytest.mark.parametrize("system", STUDIES)
def test_without_triton_it_says_what_to_install(system: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path, monkeypatch, system)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    config = Timeline(parse("k4 | a: p4")).config()
    with pytest.raises(UsageError, match=r"install frontier-oracle\[cuda\]"):
        load_system(system)(config, DigestProbe(config))


def test_a_cpu_needs_the_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    with pytest.raises(UsageError, match="set TRITON_INTERPRET=1"):
        Interpreted(os, "sglang")


@pytest.mark.slow
@pytest.mark.parametrize("system", STUDIES)
def test_the_engines_own_kernels(system: str) -> None:
    """As recorded in reports/results, a small part of it."""
    variable = f"{system.upper()}_PATH"
    if variable not in os.environ or os.environ.get("TRITON_INTERPRET") != "1":
        pytest.skip(f"needs {variable}, a checkout of the engine, and TRITON_INTERPRET=1")
    study = STUDIES[system]
    result = dict(study.parts(1, "cpu", 32, 0))
    assert study.clean(result)
