"""Each usual mistake, planted in a sound adapter, is found by its own check and comes with a way to mend it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.doctor import Diagnosis, examine
from frontier_oracle.property_tests.registry import DEFAULT, load_system

torch.set_num_threads(1)
sound = load_system("frontier")


def system_with(**changes: Any) -> Callable[[Any, Any], Any]:
    """The sound system with some of its methods or attributes replaced; a change is called with (inner, *args)."""

    def make(config: Any, model: Any) -> Any:
        inner = sound(config, model)
        names = ("extend", "decode", "adopt", "release", "stash", "load_stash", "capabilities", "prefix_policy",
                 "init_forward_metadata")  # fmt: skip
        members = {name: getattr(inner, name) for name in names}
        for name, change in changes.items():
            if change is MISSING:
                del members[name]
            elif callable(change):
                members[name] = lambda *args, _change=change: _change(inner, *args)
            else:
                members[name] = change
        return type("Adapter", (), {k: staticmethod(v) if callable(v) else v for k, v in members.items()})()

    return make


def model_with(change: Callable[[Any], Any]) -> Callable[[Any, Any], Any]:
    """The sound system on a model whose inputs are changed on the way."""

    class Changed:
        def __init__(self, model: Any) -> None:
            self.model = model

        def forward(self, inputs: Any) -> Any:
            return self.model.forward(change(inputs))

    return lambda config, model: sound(config, Changed(model))


MISSING = object()
DECODE_TWICE = system_with(decode=lambda inner, batch: (inner.decode(batch), inner.decode(batch))[1])
COUNTER = iter(range(10**6))


def leaving(*args: Any) -> Any:
    raise SystemExit(3)


def raising(*args: Any) -> Any:
    raise RuntimeError("no graph\nfor this bucket")


def write_to(batch: Any, name: str) -> None:
    getattr(batch, name).add_(1)


def host_read(inner: Any, batch: Any) -> Any:
    int(batch.accept_lengths.max())
    return inner.decode(batch)


MISTAKES: dict[str, tuple[Any, str, str]] = {
    "a string": ("pkg.mod:make", "make", "make is a str, which cannot be called"),
    "one argument": (lambda config: None, "make", "does not take (config, model)"),
    "a keyword of its own": (lambda config, model, *, rank: None, "make", "missing a required argument: 'rank'"),
    "no system": (lambda config, model: None, "make", "returned None"),
    "make raises": (raising, "make", "raised RuntimeError: no graph for this bucket (test_doctor.py:"),
    "no release": (system_with(release=MISSING), "methods", "Adapter has no method release"),
    "no stash method": (system_with(stash=MISSING), "methods", "Adapter has no method stash"),
    "no capabilities": (system_with(capabilities=MISSING), "methods capabilities", "has no capabilities"),
    "a string of them": (system_with(capabilities="extend"), "capabilities", "is a str, expected a frozenset"),
    "no set of them": (system_with(capabilities=None), "capabilities", "is a NoneType, expected a frozenset"),
    "a misspelt design": (system_with(declares="fronteer"), "declares", "(did you mean"),
    "a design itself": (system_with(declares=3), "declares", "declares is of type int, expected the name of a design"),
    "make leaves": (leaving, "make", "raised SystemExit: 3 (test_doctor.py:"),
    "decode leaves": (system_with(decode=leaving), "decode runs", "decode() raised SystemExit: 3"),
    "a misspelt one": (system_with(capabilities=frozenset({"extends"})), "capabilities", "did you mean 'extend'?"),
    "no policy": (system_with(prefix_policy=MISSING), "prefix_policy", "there is no prefix_policy"),
    "unknown policy": (system_with(prefix_policy="trigram"), "prefix_policy", "unknown prefix_policy 'trigram'"),
    "extend raises": (system_with(extend=raising), "extend runs", "extend() raised RuntimeError: no graph for this"),
    "decode raises": (system_with(decode=raising), "decode runs", "decode() raised RuntimeError: no graph for this"),
    "a list": (
        system_with(decode=lambda inner, batch: inner.decode(batch).tolist()),
        "decode result",
        "decode() returned a list, expected a tensor",
    ),
    "nothing": (system_with(extend=lambda inner, batch: [inner.extend(batch), None][1]), "extend result", "NoneType"),
    "int64 tokens": (
        system_with(decode=lambda inner, batch: inner.decode(batch).long()),
        "decode result",
        "decode() returned int64 [3, 4], expected int32 [3, 4]",
    ),
    "drafts only": (
        system_with(extend=lambda inner, batch: inner.extend(batch)[:, 1:]),
        "extend result",
        "extend() returned int32 [2, 3], expected int32 [2, 4]",
    ),
    "writes to its batch": (
        system_with(decode=lambda inner, batch: (inner.decode(batch), write_to(batch, "seq_lens"))[0]),
        "decode inputs",
        "decode() wrote to its batch: seq_lens",
    ),
    "writes to a page table": (
        system_with(extend=lambda inner, batch: (inner.extend(batch), batch.page_table[0].zero_())[0]),
        "extend inputs",
        "extend() wrote to its batch: page_table",
    ),
    "int64 ids": (
        model_with(lambda inputs: replace(inputs, input_ids=inputs.input_ids.long())),
        "extend model calls decode model calls",
        "depth 0: input_ids: expected int32, got int64 (and 2 more)",
    ),
    "hiddens in another dtype": (
        model_with(lambda inputs: replace(inputs, hidden=inputs.hidden.float())),
        "extend model calls decode model calls",
        "hidden: expected bfloat16, got float32",
    ),
    "a depth twice": (DECODE_TWICE, "decode depths", "for depths [0, 1, 2, 0, 1, 2], expected [0, 1, 2]"),
    "always depth 0": (
        model_with(lambda inputs: replace(inputs, depth=0)),
        "extend depths decode depths",
        "for depths [0, 0, 0], expected [0, 1, 2]",
    ),
    "draws numbers": (
        system_with(decode=lambda inner, batch: inner.decode(batch) + next(COUNTER)),
        "deterministic",
        "two fresh systems given the same two rounds differ",
    ),
    "half a stash": (
        system_with(stash=lambda inner: replace(inner.stash(), tokens=inner.stash().tokens[:, 1:])),
        "stash",
        "stash() holds tokens [4, 2]",
    ),
    "no stash view": (system_with(stash=lambda inner: None), "stash", "stash() gave no StashView: AttributeError"),
    "host reads": (
        system_with(decode=host_read),
        "device_only",
        "declares device_only but reads tensor values on the host: Tensor.__int__",
    ),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_named(name: str) -> None:
    make, check, says = MISTAKES[name]
    found: list[Diagnosis] = examine(make)
    wrong = [d for d in found if not d.ok]
    assert wrong, found
    assert all(d.check in check for d in wrong), wrong
    assert any(says in d.message for d in wrong), wrong
    assert all(d.how_to_mend for d in wrong)
    assert not any("\n" in d.message + d.how_to_mend for d in found)


@pytest.mark.parametrize("name", DEFAULT)
@pytest.mark.parametrize(
    "spec",
    [
        Spec(),
        Spec(k=2),
        Spec(k=3, steps=3, hidden="target", groups=(CacheGroup(4), CacheGroup(2, window=4))),
        Spec(k=8, steps=1, conv_width=1),
    ],
)
def test_built_in_systems_are_healthy(name: str, spec: Spec) -> None:
    found = examine(load_system(name), spec)
    assert [d for d in found if not d.ok or d.how_to_mend] == []
    last = ["deterministic", "stash", "device_only"]
    assert [d.check for d in found if d.check in last] == (last[:2] if name == "minimal" else last)


def test_a_system_without_extend_or_padding_is_examined_without_them() -> None:
    found = examine(system_with(capabilities=frozenset()))
    assert all(d.ok for d in found)
    assert {d.check.split()[0] for d in found} == {
        "make", "methods", "capabilities", "prefix_policy", "decode", "deterministic",
    }  # fmt: skip


def test_make_that_works_only_once() -> None:
    once = iter([None])

    def make(config: Any, model: Any) -> Any:
        next(once)
        return sound(config, model)

    assert [(d.check, d.ok) for d in examine(make)] == [("make", False)]
