"""Examines an adapter before the gate does: the usual mistakes, each with a line on how to mend it."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from frontier_oracle.oracle.contract import DraftConfig
from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.oracle.policies import POLICIES
from frontier_oracle.oracle.spec import Spec
from frontier_oracle.property_tests.doctor_habits import Habit, columns, device, habits, signatures
from frontier_oracle.property_tests.doctor_trial import RoundReport, Trial, describe, doctor_config, run_trial
from frontier_oracle.property_tests.probe import DigestProbe
from frontier_oracle.property_tests.shield import placed_config

CAPABILITIES = ("extend", "adopt", "padding", "stash", "load_stash", "device_only", "media", "refusals")
PREFIX_POLICIES = tuple(POLICIES)
METHODS = {
    "extend": "extend(batch) -> [bs, steps+1] int32",
    "decode": "decode(batch) -> [bs, steps+1] int32",
    "adopt": "adopt(slot, pages, length)",
    "release": "release(slot)",
}
MEND_MAKE = "define make(config: DraftConfig, model: DraftModel) that returns a new system"
# By the capability that promises them.
OPTIONAL_METHODS = {
    "stash": ("stash", "stash() -> StashView"),
    "load_stash": ("load_stash", "load_stash(slots, tokens, hidden, valid_lens)"),
    "refusals": ("init_forward_metadata", "init_forward_metadata(mode)"),
}


@dataclass(frozen=True)
class Diagnosis:
    """One check. ``message`` says what was found; ``how_to_mend`` is "" where nothing is wrong."""

    check: str
    ok: bool
    message: str
    how_to_mend: str = ""


def examine(make: Any, spec: Spec | None = None) -> list[Diagnosis]:
    """Checks an adapter's factory on two small rounds, in the order in which mistakes hide one another.

    Checks that cannot run because an earlier one failed are left out. Never raises for what the adapter does.
    """
    config = placed_config(make, doctor_config(spec or Spec()))
    if (refused := _signature(make, config)) is not None:
        return [refused]
    try:
        system = make(config, DigestProbe(config))
        found = [_built(system)]
        if system is not None:
            found += [_methods(system), _capabilities(system), _prefix_policy(system), *_declares(system)]
        if all(d.ok for d in found):
            found.append(_habit(signatures(system)))
        if not all(d.ok for d in found):
            return found
        trials = [run_trial(make, config) for _ in range(2)]
        guarded = run_trial(make, config, guard=True) if "device_only" in system.capabilities else None
    except (Exception, SystemExit) as error:  # rounds keep what they raise, so this came from make
        return [Diagnosis("make", False, f"make(config, model) raised {describe(error)}", "mend what it raises")]
    for report in trials[0].rounds:
        found += _round_checks(report, config)
    if all(d.ok for d in found):
        found.append(_deterministic(trials[0], trials[1]))
        if "stash" in system.capabilities:
            found.append(_stash(trials[0], config))
        if guarded is not None:
            found.append(_device_only(guarded))
    if all(d.ok for d in found):
        found += map(_habit, habits(make, config, frozenset(system.capabilities)))
    return found


def _habit(habit: Habit) -> Diagnosis:
    return Diagnosis(habit.check, not habit.wrong, habit.wrong or habit.right, habit.mend if habit.wrong else "")


def _signature(make: Any, config: DraftConfig) -> Diagnosis | None:
    """What keeps make from being called as make(config, model), if anything does."""
    if not callable(make):
        return Diagnosis("make", False, f"make is a {type(make).__name__}, which cannot be called", MEND_MAKE)
    try:
        signature = inspect.signature(make)
    except ValueError:  # some C callables have none; the call tells
        return None
    try:
        signature.bind(config, None)
    except TypeError as error:
        return Diagnosis("make", False, f"make{signature} does not take (config, model): {error}", MEND_MAKE)
    return None


def _built(system: Any) -> Diagnosis:
    if system is None:
        return Diagnosis("make", False, "make(config, model) returned None", MEND_MAKE)
    return Diagnosis("make", True, f"make(config, model) returned a {type(system).__name__}")


def _methods(system: Any) -> Diagnosis:
    capabilities = getattr(system, "capabilities", ())
    claimed = capabilities if isinstance(capabilities, (set, frozenset)) else ()
    wanted = METHODS | dict(method for name, method in OPTIONAL_METHODS.items() if name in claimed)
    missing = [name for name in wanted if not callable(getattr(system, name, None))]
    if not missing:
        return Diagnosis("methods", True, f"has {', '.join(wanted)}")
    return Diagnosis(
        "methods",
        False,
        f"{type(system).__name__} has no method {', '.join(missing)}",
        "add " + "; ".join(wanted[name] for name in missing),
    )


def _capabilities(system: Any) -> Diagnosis:
    allowed = f'set capabilities = frozenset({{"extend", ...}}) with names out of {", ".join(CAPABILITIES)}'
    if not hasattr(system, "capabilities"):
        return Diagnosis("capabilities", False, f"{type(system).__name__} has no capabilities", allowed)
    names = system.capabilities
    if not isinstance(names, (set, frozenset)):
        return Diagnosis(
            "capabilities", False, f"capabilities is a {type(names).__name__}, expected a frozenset", allowed
        )
    unknown = sorted(str(name) for name in names if name not in CAPABILITIES)
    if unknown:
        return Diagnosis("capabilities", False, f"unknown capability {', '.join(map(_guess, unknown))}", allowed)
    return Diagnosis("capabilities", True, f"declares {', '.join(sorted(names)) or 'nothing'}")


def _guess(name: str) -> str:
    close = difflib.get_close_matches(name, CAPABILITIES, n=1)
    return f"{name!r} (did you mean {close[0]!r}?)" if close else repr(name)


def _prefix_policy(system: Any) -> Diagnosis:
    policy = getattr(system, "prefix_policy", None)
    if policy in PREFIX_POLICIES:
        return Diagnosis("prefix_policy", True, f"prefix pages are keyed by policy {policy!r}")
    mend = "set prefix_policy to " + " or ".join(f'"{policy.name}" ({policy.says})' for policy in POLICIES.values())
    got = "there is no prefix_policy" if policy is None else f"unknown prefix_policy {policy!r}"
    return Diagnosis("prefix_policy", False, got, mend)


def _declares(system: Any) -> Iterator[Diagnosis]:
    """The design that the system claims to be, if it claims one."""
    declares = getattr(system, "declares", "")
    if isinstance(declares, str) and declares in DESIGNS:
        yield Diagnosis("declares", True, f"declares the design {declares!r}")
    elif declares != "":
        mend = f"leave declares out, or set it to the name of a design: {', '.join(DESIGNS)}"
        got = f"declares is of type {type(declares).__name__}, expected the name of a design"
        if isinstance(declares, str):
            close = difflib.get_close_matches(declares, DESIGNS, n=1)
            got = f"declares unknown design {declares!r}" + (f" (did you mean {close[0]!r}?)" if close else "")
        yield Diagnosis("declares", False, got, mend)


def _round_checks(report: RoundReport, config: DraftConfig) -> Iterator[Diagnosis]:
    name = report.method
    if report.error:
        yield Diagnosis(f"{name} runs", False, f"{name}() raised {report.error}", f"mend what {name}() raises")
    else:
        yield Diagnosis(f"{name} runs", True, f"{name}() returned")
        yield _result(report, config)
    yield _inputs_kept(report)
    yield _contract(report)
    if not report.error:
        depths = _depths(report, config)
        yield depths
        if depths.ok and _result(report, config).ok:
            yield _habit(device(report, config))
            if report.result.device.type != "meta":
                yield _habit(columns(report, report.batch, config))


def _result(report: RoundReport, config: DraftConfig) -> Diagnosis:
    check, want = f"{report.method} result", [report.rows, config.spec.steps + 1]
    mend = f"return a torch.int32 tensor {want}: column 0 the committed token, then one draft per depth"
    result = report.result
    if not isinstance(result, Tensor):
        return Diagnosis(check, False, f"{report.method}() returned a {type(result).__name__}, expected a tensor", mend)
    if result.dtype != torch.int32 or list(result.shape) != want:
        got = f"{str(result.dtype).removeprefix('torch.')} {list(result.shape)}"
        return Diagnosis(check, False, f"{report.method}() returned {got}, expected int32 {want}", mend)
    return Diagnosis(check, True, f"int32 {want}")


def _inputs_kept(report: RoundReport) -> Diagnosis:
    check = f"{report.method} inputs"
    if not report.changed:
        return Diagnosis(check, True, "the batch was left as it was")
    return Diagnosis(
        check,
        False,
        f"{report.method}() wrote to its batch: {', '.join(report.changed)}",
        "copy before writing: batch.field.clone(); the scheduler goes on using these buffers",
    )


def _contract(report: RoundReport) -> Diagnosis:
    check = f"{report.method} model calls"
    if not report.contract_errors:
        return Diagnosis(check, True, "every model call kept to the types, shapes and ranges of ForwardInputs")
    more = f" (and {len(report.contract_errors) - 1} more)" if len(report.contract_errors) > 1 else ""
    mend = "pass what contract.ForwardInputs says: token ids int32 end to end, int64 only for indices (S10)"
    return Diagnosis(check, False, report.contract_errors[0] + more, mend)


def _depths(report: RoundReport, config: DraftConfig) -> Diagnosis:
    check, want = f"{report.method} depths", list(range(config.spec.steps))
    if report.depths == want:
        return Diagnosis(check, True, f"one model call for each of {len(want)} depths, in order")
    return Diagnosis(
        check,
        False,
        f"{report.method}() called the model for depths {report.depths}, expected {want}",
        "call model.forward once for each depth 0..steps-1, in this order, in every round (S1, S13)",
    )


def _deterministic(first: Trial, second: Trial) -> Diagnosis:
    if first.fingerprint() == second.fingerprint():
        return Diagnosis("deterministic", True, "two fresh systems returned and wrote the same bytes")
    return Diagnosis(
        "deterministic",
        False,
        "two fresh systems given the same two rounds differ in what they returned or wrote",
        "allocate buffers with zeros, not empty; keep no state outside the system; draw no random numbers",
    )


def _stash(trial: Trial, config: DraftConfig) -> Diagnosis:
    """StashView's shapes and types."""
    slots, tail = config.num_slots, config.spec.k - 1
    mend = (
        f"return StashView(tokens [{slots}, {tail}] int32, hidden [{slots}, {tail}, {config.hidden_size}], valid_lens)"
    )
    try:
        view = trial.system.stash()
        shapes = [list(view.tokens.shape), list(view.hidden.shape)]
        valid = None if view.valid_lens is None else list(view.valid_lens.shape)
        dtypes = (view.tokens.dtype, str(view.hidden.dtype).removeprefix("torch."))
    except (Exception, SystemExit) as error:
        return Diagnosis("stash", False, f"stash() gave no StashView: {describe(error)}", mend)
    wanted = [[slots, tail], [slots, tail, config.hidden_size]]
    if shapes != wanted or valid not in (None, [slots]) or dtypes != (torch.int32, config.dtype):
        got = f"tokens {shapes[0]} {dtypes[0]}, hidden {shapes[1]} {dtypes[1]}, valid_lens {valid}"
        return Diagnosis("stash", False, f"stash() holds {got}", mend)
    return Diagnosis("stash", True, f"stash() holds tokens {shapes[0]} and hiddens {shapes[1]}")


def _device_only(trial: Trial) -> Diagnosis:
    report = trial.rounds[-1]
    if not report.host_read:
        return Diagnosis("device_only", True, "decode() read no tensor value on the host")
    return Diagnosis(
        "device_only",
        False,
        f"decode() declares device_only but reads tensor values on the host: {report.host_read}",
        "compute indices on the device (gather, arange + frontier), or drop device_only from the capabilities (S9)",
    )
