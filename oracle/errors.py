"""Errors that are the user's to mend: one clear line, exit code 2."""

from __future__ import annotations


class UsageError(Exception):
    """Bad input from outside: a scenario, a file, an adapter or an option. The CLI prints it and exits 2."""


class SpecError(UsageError):
    """A configuration outside the limits of the semantics. Subclasses name the limit."""


class WindowTooNarrow(SpecError):
    """k (spec_num_tokens) below 2: a verify window needs a committed token and a draft."""


class StepsExceedWindow(SpecError):
    """steps > k: the k-row frontier window is not sufficient (S4)."""


class TreeUnsupported(SpecError):
    """Tree drafts: a candidate has more than one child. Only chains are simulated."""


class TopKUnsupported(SpecError):
    """top-k > 1 drafting: only one draft per depth is simulated."""


class PerRoundKUnsupported(SpecError):
    """A verify width that changes between rounds. k is fixed for a run."""


class RingTooShort(SpecError):
    """Conv ring shorter than (W-1) + k: a window's taps would alias its own writes (S18)."""


class HiddenSemanticUnsupported(SpecError):
    """A drafter was asked for a head whose hidden semantic its window cannot keep exact (S1, S4)."""


class MixedBatchUnsupported(UsageError):
    """Extend and decode rows in one forward: refused when metadata is initialised (S15)."""


class DataParallelUnsupported(SpecError):
    """A data-parallel size above 1: refused at construction (S15)."""


class MediaSubstituteMissing(UsageError):
    """A multimodal target without a usable in-vocabulary id for a modality: refused at start-up (S16)."""


class AddressChanged(UsageError):
    """A buffer of a captured round is no longer where it was at the capture: a replay would use the old one (S24)."""


class ScenarioError(UsageError):
    """A scenario that does not parse, or asks for what cannot happen (accept outside [1, k], unknown request, ...)."""


class RecordError(UsageError):
    """A repro or record file that is broken, truncated, or of a newer version."""
