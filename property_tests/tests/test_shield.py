"""Adapters that raise, exit, or return what the contract does not know: one clear line or FO401, never a crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from frontier_oracle.oracle.contract import DraftModel, ForwardInputs, StashView
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.rules import Finding
from frontier_oracle.property_tests.driver import run_scenario
from frontier_oracle.property_tests.gate import system as gate_system
from frontier_oracle.property_tests.shield import AdapterError, Factory
from frontier_oracle.reference_impl.frontier import Frontier

SCENARIO = "k4 page4 | a: p12 | b: p12 hit a 11 chunks 2,2 held | a1 | +b | +b | b1 a2 /3"


def with_(**methods: Any) -> Factory:
    made: Factory = type("Adapter", (Frontier,), methods)
    return made


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no message")


def raises(error: BaseException) -> Callable[..., Any]:
    def method(*_: Any) -> Any:
        raise error

    return method


def passing(change: Callable[[ForwardInputs], ForwardInputs]) -> Factory:
    """Frontier, what it passes to the model changed on the way."""

    class Changed:
        def __init__(self, model: DraftModel) -> None:
            self.model, self.load_conv_state = model, model.load_conv_state

        def forward(self, inputs: ForwardInputs) -> tuple[Any, Any]:
            return self.model.forward(change(inputs))

    return lambda config, model: Frontier(config, Changed(model))


def first(factory: Factory) -> Finding:
    return run_scenario(factory, parse(SCENARIO), "successor", stop_at_first=True).findings[0]


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (with_(decode=raises(ZeroDivisionError("by zero"))), r"decode\(\): ZeroDivisionError: by zero \(.*:\d+\)"),
        (with_(decode=raises(SystemExit(0))), r"decode\(\): SystemExit: 0"),
        (with_(extend=raises(Unreadable())), "Unreadable: its message cannot be read"),
        (with_(extend=raises(ValueError("one\ntwo " + "x" * 999))), r"one two x+ \.\.\."),
        (with_(stash=raises(KeyError("stash"))), r"stash\(\): KeyError"),
        (with_(adopt=lambda self, slot: None), r"adopt\(\): TypeError"),
    ],
)
def test_what_a_system_raises_is_one_line(factory: Factory, words: str) -> None:
    with pytest.raises(AdapterError, match=words) as caught:
        first(factory)
    assert len(str(caught.value).splitlines()) == 1 and len(str(caught.value)) < 500


def short_stash(self: Frontier) -> StashView:
    view = Frontier.stash(self)
    return StashView(view.tokens[:, 1:], view.hidden, view.valid_lens)


def far_too_long(inputs: ForwardInputs) -> ForwardInputs:
    starts = inputs.query_start_loc.clone()
    starts[-1] += 5
    return replace(inputs, query_start_loc=starts)


def far_off(inputs: ForwardInputs) -> ForwardInputs:
    return replace(inputs, out_cache_loc=tuple(loc.long() + 2**40 for loc in inputs.out_cache_loc))


def twice(self: Frontier, first_inputs: ForwardInputs, **rest: Any) -> Any:
    self.model.forward(first_inputs)
    return Frontier.run_depths(self, first_inputs, **rest)


@pytest.mark.parametrize(
    ("factory", "words"),
    [
        (with_(decode=lambda self, batch: None), "decode() returned NoneType, expected int32"),
        (with_(decode=lambda self, batch: Frontier.decode(self, batch).to("meta")), "without storage"),
        (with_(decode=lambda self, batch: Frontier.decode(self, batch).to_sparse()), "without storage"),
        (with_(decode=lambda self, batch: Frontier.decode(self, batch).float()), "returned float32"),
        (with_(stash=lambda self: [1, 2]), "stash() returned list, expected contract.StashView"),
        (with_(stash=short_stash), "stash().tokens is int32 [5, 2], expected int32 [5, 3]"),
        (with_(run_depths=twice), "calls in a round of 3 depths"),
        (passing(far_too_long), "query_start_loc"),
        (passing(far_off), "out_cache_loc[0]: expected values in"),
    ],
)
def test_what_is_not_the_contract_is_fo401(factory: Factory, words: str) -> None:
    finding = first(factory)
    assert finding.code == "FO401" and words in finding.detail["because"]


@pytest.mark.parametrize(
    ("attributes", "words"),
    [
        ({"capabilities": None}, "capabilities is None, expected a set of names"),
        ({"capabilities": "extend"}, "capabilities is 'extend', expected a set of names"),
        ({"declares": ["x"]}, "declares"),
        ({"declares": "nothing_known"}, "expected a design"),
        ({"prefix_policy": "bogus"}, "prefix_policy 'bogus' is unknown"),
    ],
)
def test_declarations_are_checked_when_the_system_is_loaded(
    monkeypatch: pytest.MonkeyPatch, attributes: dict[str, Any], words: str
) -> None:
    monkeypatch.setattr(gate_system, "load_system", lambda name: with_(**attributes))
    with pytest.raises(AdapterError, match=words):
        gate_system.resolve("adapter")


def lazily(self: Frontier, slot: int, pages: Any, length: int) -> None:
    self.reset_slot(slot)
    self.pending = {slot: (pages, length)}


def loads_then_extends(self: Frontier, batch: Any) -> Any:
    for slot in batch.req_pool_indices.tolist():
        if slot in getattr(self, "pending", {}):
            pages, length = self.pending.pop(slot)
            self.model.load_conv_state(slot, pages[(length - 1) // 4], length)
    return Frontier.extend(self, batch)


def test_the_ring_may_be_loaded_late_and_a_stash_may_claim_no_length() -> None:
    late = with_(adopt=lazily, extend=loads_then_extends)
    assert not run_scenario(late, parse(SCENARIO), "successor").findings
    claims_none = with_(stash=lambda self: StashView(self._stash.tokens, self._stash.hidden, None))
    assert not run_scenario(claims_none, parse("k4 page4 | a: p1 | a1, a2, a4"), "successor").findings
