"""One rule, one code, one exception class. Findings are data; text, JUnit and Markdown are rendered from them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, NoReturn


@dataclass(frozen=True)
class Finding:
    """One violated rule, located. round counts scenario rounds from 0; request is a scenario name ("" = padding);
    depth and position are -1 where the rule has none. ``detail`` holds expected / got / because as plain data."""

    code: str
    round: int
    request: str
    depth: int = -1
    position: int = -1
    detail: dict[str, Any] = field(default_factory=dict, compare=False)

    @property
    def key(self) -> tuple[str, int, str, int, int]:
        """What set equality with declared deviations compares."""
        return (self.code, self.round, self.request, self.depth, self.position)


class Divergence(AssertionError):
    """A system's books differ from the oracle's. Subclasses carry the rule, so shrinking never merges two bugs."""

    code: ClassVar[str] = ""
    title: ClassVar[str] = ""
    rule: ClassVar[str] = ""

    def __init__(self, finding: Finding, message: str = "") -> None:
        super().__init__(message or f"{finding.code} {self.title}: {finding}")
        self.finding = finding


class FO101(Divergence):
    code, title, rule = "FO101", "wrong token", "S1 S5 S7 S12 S13"


class FO102(Divergence):
    code, title, rule = "FO102", "wrong hidden", "S1 S6"


class FO103(Divergence):
    code, title, rule = "FO103", "wrong position", "S9"


class FO104(Divergence):
    code, title, rule = "FO104", "wrong write location", "S9 S17"


class FO105(Divergence):
    code, title, rule = "FO105", "wrong sample row", "S9"


class FO106(Divergence):
    code, title, rule = "FO106", "wrong column 0", "S10"


class FO107(Divergence):
    code, title, rule = "FO107", "wrong seq_lens or extent", "S9"


class FO108(Divergence):
    code, title, rule = "FO108", "returned drafts differ from those sampled", "S10"


class FO201(Divergence):
    code, title, rule = "FO201", "stale entry", "S3 S4"


class FO202(Divergence):
    code, title, rule = "FO202", "unwritten entry", "S3 S13"


class FO203(Divergence):
    code, title, rule = "FO203", "garbage read", "S3"


class FO204(Divergence):
    code, title, rule = "FO204", "foreign write", "S19"


class FO205(Divergence):
    code, title, rule = "FO205", "padded row wrote", "S20"


class FO206(Divergence):
    code, title, rule = "FO206", "stash wrong or foreign", "S8 S14 S19"


class FO207(Divergence):
    code, title, rule = "FO207", "conv ring wrong", "S18"


class FO208(Divergence):
    code, title, rule = "FO208", "checkpoint wrong", "S18"


class FO209(Divergence):
    code, title, rule = "FO209", "shared page changed", "S21"


class FO301(Divergence):
    code, title, rule = "FO301", "replay differs from eager", "S23"


class FO302(Divergence):
    code, title, rule = "FO302", "host synchronization", "S9 S24"


class FO303(Divergence):
    code, title, rule = "FO303", "address changed", "S24"


class FO401(Divergence):
    code, title, rule = "FO401", "dtype or shape contract", "S10"


class FO402(Divergence):
    code, title, rule = "FO402", "must refuse but did not", "S15"


class FO403(Divergence):
    code, title, rule = "FO403", "refused what it must serve", "S15"


class FO501(Divergence):
    code, title, rule = "FO501", "output differs from the target's own", "S25"


class FO601(Divergence):
    code, title, rule = "FO601", "not deterministic", "S23"


RULES: dict[str, type[Divergence]] = {cls.code: cls for cls in Divergence.__subclasses__()}


def raise_finding(finding: Finding, message: str = "") -> NoReturn:
    """The one place a finding becomes an exception: of its rule's own class."""
    raise RULES[finding.code](finding, message)
