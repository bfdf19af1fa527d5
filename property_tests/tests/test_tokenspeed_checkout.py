"""TokenSpeed's own files, from a checkout: skipped where TOKENSPEED_PATH names none."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from frontier_oracle.oracle.language import parse
from frontier_oracle.property_tests.adapters.tokenspeed import Runner
from frontier_oracle.property_tests.adapters.tokenspeed_parts import ENGINE, drafter_module
from frontier_oracle.property_tests.bulk_random import run_random
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.gate.judged import judge
from frontier_oracle.property_tests.gate.known import KNOWN
from frontier_oracle.property_tests.gate.system import resolve

if "TOKENSPEED_PATH" not in os.environ:
    pytest.skip("TOKENSPEED_PATH names no checkout of lightseekorg/tokenspeed", allow_module_level=True)
torch.set_num_threads(1)


@pytest.mark.parametrize("name", [name for name, text in KNOWN.items() if "media" not in text])
def test_it_is_the_published_frontier_design(name: str) -> None:
    """Set equality of findings and cause entries, with host reads watched."""
    assert not judge(resolve("tokenspeed"), parse(KNOWN[name]), guard=True).undeclared


@pytest.mark.parametrize("system", ["tokenspeed", "tokenspeed_backend"])
def test_one_shot_prompts_of_at_least_k_tokens_are_exact(system: str) -> None:
    result = run_random(resolve(system).factory, 3_000, seed=3, batch=64, one_shot=True)
    assert result.request_rounds >= 3_000 and not result.failures


def test_eagle_is_exact_on_pages_keyed_by_bigrams_and_not_on_pages_keyed_by_tokens() -> None:
    found = resolve("tokenspeed_eagle")
    chunks, hit = "k4 page4 R9 single | a: p9 chunks 3,5,1 | a1, a4, a2", "k4 page4 R9 single | a: p12 | b: p12 hit a 8"
    assert not run_scenario(found.factory, parse(chunks), found.policy).findings
    assert not run_scenario(found.factory, parse(hit), "bigram").findings
    stale = run_scenario(found.factory, parse(hit), "tokens").findings
    assert [(f.code, f.request, f.depth, f.position) for f in stale] == [("FO201", "b", 0, 7)]


# What the engine's functions are given, and what they hand on, changed in one respect each.
Plant = Callable[[pytest.MonkeyPatch, Any], None]


def _argument(name: str, index: int, change: Callable[[Any], Any]) -> Plant:
    """A function of the engine's file gets one argument changed."""

    def plant(patch: pytest.MonkeyPatch, module: Any) -> None:
        original = getattr(module, name)

        def changed(*given: Any, **named: Any) -> Any:
            values = list(given)
            values[index] = change(values[index])
            return original(*values, **named)

        patch.setattr(module, name, changed)

    return plant


def _handed_on(**changes: Callable[[Any, int], Any]) -> Plant:
    """The model runner gets arguments of the engine's call changed; a change sees the value and the depth."""

    def plant(patch: pytest.MonkeyPatch, module: Any) -> None:
        original = Runner.forward

        def changed(self: Runner, **named: Any) -> Any:
            for key, change in changes.items():
                named[key] = change(named[key], named["spec_step_idx"])
            return original(self, **named)

        patch.setattr(Runner, "forward", changed)

    return plant


def _no_hook(patch: pytest.MonkeyPatch, module: Any) -> None:
    patch.setattr(Runner, "update_draft_forward_metadata", lambda self, frontier: None)


def _stash_not_kept(patch: pytest.MonkeyPatch, module: Any) -> None:
    original = module.Mtp._run_decode_depths

    def changed(self: Any, *given: Any) -> None:
        before = self._stash_tokens_buf.clone()
        original(self, *given)
        self._stash_tokens_buf.copy_(before)

    patch.setattr(module.Mtp, "_run_decode_depths", changed)


def _first_verified(patch: pytest.MonkeyPatch, module: Any) -> None:
    original = module.Mtp.draft

    def changed(self: Any, draft_input: Any) -> torch.Tensor:
        drafts: torch.Tensor = original(self, draft_input)
        drafts[:, 0] = draft_input.base_model_output.view(len(drafts), -1)[:, 0]
        return drafts

    patch.setattr(module.Mtp, "draft", changed)


def _earlier(accept: torch.Tensor) -> torch.Tensor:
    return (accept - 1).clamp(min=1)


FAULTS: dict[str, Plant] = {
    "ids of a shorter accept (S5)": _argument("_frontier_shifted_ids", 1, _earlier),
    "hiddens of a shorter accept (S6)": _argument("_frontier_hidden_splice", 2, _earlier),
    "ids not rolled (S7)": _handed_on(input_ids=lambda ids, depth: ids.roll(1) if depth else ids),
    "stash not kept (S8)": _stash_not_kept,
    "positions one early (S9)": _handed_on(positions=lambda positions, depth: (positions - 1).clamp(min=0)),
    "locations one early (S9)": _handed_on(out_cache_loc=lambda at, depth: (at - 1).clamp(min=0)),
    "no hook (S9)": _no_hook,
    "column 0 the first verified (S10)": _first_verified,
    "prompt ids one depth behind (S12)": _argument(
        "_extend_depth_shifted_ids_from", 2, lambda depth: max(depth - 1, 1)
    ),
    "stash of the prompt not taken (S14)": _argument("_ragged_tail_rows", 0, torch.zeros_like),
    "own hiddens not chained (S1)": _handed_on(
        captured_hidden_states=lambda hidden, depth: hidden.roll(1, 0) if depth else hidden
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_planted_around_its_functions_is_found(fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    FAULTS[fault](monkeypatch, drafter_module(ENGINE.root(), "mtp"))
    assert run_random(resolve("tokenspeed").factory, 2_000, seed=4, batch=32, one_shot=True).failures
