"""Each usual mistake, planted in a sound adapter, is found by its own check and comes with a way to mend it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.doctor import Diagnosis, examine
from frontier_oracle.property_tests.mutants import survey  # noqa: F401
from frontier_oracle.property_tests.mutants.planting import PLANTED
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


def with_method(name: str, method: Any) -> Callable[[Any, Any], Any]:
    """The sound system with a method of another signature."""

    def make(config: Any, model: Any) -> Any:
        system = system_with()(config, model)
        setattr(system, name, method)
        return system

    return make


class Adding:
    """A sound system whose model is given ids that are off by ``offset(batch)``, where ``batch`` is being decoded."""

    def __init__(self, config: Any, model: Any) -> None:
        self.inner, self.model, self.off = sound(config, self), model, 0
        self.load_conv_state = model.load_conv_state
        self.capabilities, self.prefix_policy = self.inner.capabilities - {"device_only"}, "successor"
        self.owners: dict[int, int] = {}
        self.kept = torch.zeros(1, dtype=torch.int32)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def forward(self, inputs: Any) -> Any:
        return self.model.forward(replace(inputs, input_ids=inputs.input_ids + self.off))

    def extend(self, batch: Any) -> Any:
        self.off, self.kept = 0, batch.sampled_ids
        for slot in batch.req_pool_indices.tolist():
            self.owners[slot] = self.owners.get(slot, 0) + 1
        return self.inner.extend(batch)

    def decode(self, batch: Any) -> Any:
        self.off = self.offset(batch)
        return self.inner.decode(batch)

    def offset(self, batch: Any) -> int:
        return 0


class KeepsABatch(Adding):
    def offset(self, batch: Any) -> int:
        return int(self.kept.sum()) % 1000


class CountsOwners(Adding):
    def offset(self, batch: Any) -> int:
        return max(self.owners.values())


class CountsRows(Adding):
    def offset(self, batch: Any) -> int:
        return len(batch.seq_lens)


class ForgetsRelease(Adding):
    """Takes a slot for a request and never gives it back."""

    def extend(self, batch: Any) -> Any:
        taken = [slot for slot in batch.req_pool_indices.tolist() if slot in self.owners]
        if taken:
            raise RuntimeError(f"slot {taken[0]} is taken")
        return super().extend(batch)


def one_buffer(config: Any, model: Any) -> Any:
    """Every result is the same tensor."""
    buffer = torch.zeros(3, config.spec.steps + 1, dtype=torch.int32)

    def decode(inner: Any, batch: Any) -> Any:
        result = inner.decode(batch)
        return buffer[: len(result)].copy_(result)

    return system_with(decode=decode)(config, model)


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
    "release without a slot": (with_method("release", lambda: None), "signatures", "release() cannot be called with 1"),
    "adopt of a slot alone": (with_method("adopt", lambda slot: None), "signatures", "adopt(slot) cannot be called"),
    "drafts in reverse": (
        system_with(decode=lambda inner, b: (r := inner.decode(b), torch.cat([r[:, :1], r[:, 1:].flip(1)], 1))[1]),
        "decode columns",
        "decode() returned drafts in reverse order",
    ),
    "drafts first": (
        system_with(extend=lambda inner, batch: inner.extend(batch).roll(-1, 1)),
        "extend columns",
        "the drafts from column 0 on, and no committed token in front",
    ),
    "column 0 is v[0]": (
        system_with(decode=lambda inner, b: torch.cat([b.verify_ids[:, :1], inner.decode(b)[:, 1:]], 1)),
        "decode columns",
        "in column 0, expected v[a-1]",
    ),
    "drafts of its own": (
        system_with(decode=lambda inner, b: inner.decode(b) + torch.arange(4, dtype=torch.int32)),
        "decode columns",
        "drafts not what the model sampled",
    ),
    "a result elsewhere": (
        system_with(decode=lambda inner, batch: inner.decode(batch).to("meta")),
        "decode device",
        "decode() returned a tensor on meta",
    ),
    "state by batch row": (
        PLANTED["stash_read_by_row"].factory("frontier"),
        "batch order",
        "state is kept by batch row, not by slot",
    ),
    "keeps a batch": (KeepsABatch, "kept batches", "reads tensors of an earlier batch"),
    "counts owners": (CountsOwners, "slot reuse", "state of the first was left in it"),
    "forgets release": (ForgetsRelease, "slot reuse", "it raised RuntimeError: slot 2 is taken (test_doctor.py:"),
    "padded rows count": (CountsRows, "padded rows", "depend on the padded rows beside them"),
    "one buffer for results": (one_buffer, "kept results", "writes to the tensor that it returned the round before"),
    "adopt ignored": (system_with(adopt=lambda inner, *args: None), "adopt", "did not load the conv state"),
    "adopt of another slot": (
        system_with(adopt=lambda inner, slot, pages, length: inner.adopt(slot - 1, pages, length)),
        "adopt",
        "loaded (slot, page, length) [(2, 2, 8)], expected (3, 2, 8)",
    ),
    "adopt raises": (system_with(adopt=raising), "adopt", "adopt() raised RuntimeError: no graph for this bucket"),
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
        "make", "methods", "capabilities", "prefix_policy", "signatures", "decode", "deterministic", "batch", "kept",
    }  # fmt: skip


def test_make_that_works_only_once() -> None:
    once = iter([None])

    def make(config: Any, model: Any) -> Any:
        next(once)
        return sound(config, model)

    assert [(d.check, d.ok) for d in examine(make)] == [("make", False)]
