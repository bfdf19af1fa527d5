"""The prefix-cache study: what each policy gives of a shared prefix, what of that is wrong, and what it costs (S21).

Run as a module, it prints the tables of docs/prefix-cache.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from frontier_oracle.oracle.designs import DESIGNS
from frontier_oracle.oracle.executor import DesignDrafter
from frontier_oracle.oracle.ledger import CAUSES, TAINTED
from frontier_oracle.oracle.play import outcome
from frontier_oracle.oracle.policies import POLICIES
from frontier_oracle.oracle.scenario import Admit, Decode, Event, Scenario
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.oracle.timeline import Timeline

PAGES = (1, 2, 4, 16)
PROMPT, OUTPUT = 40, (4, 3)  # the donor's: 48 tokens known, F = 47
SHARED = tuple(range(33, 49))  # every place in a page of 16, up to all that is known of the donor


@dataclass(frozen=True)
class HitCase:
    """One hit. shared: the tokens that both requests begin with; hit: the positions the policy gives of them; wrong:
    entries below the hit that are stale, wrong, foreign or unwritten when the sharer has read its prompt; tainted: its
    entries that read such a one; rewritten: findings that a shared page changed, the donor's next round included;
    drafts: whether the sharer drafted what recomputing from scratch would have."""

    policy: str
    page_size: int
    shared: int
    hit: int
    wrong: int
    tainted: int
    rewritten: int
    drafts: bool

    @property
    def recomputed(self) -> int:
        """Shared tokens that are computed again all the same."""
        return self.shared - self.hit

    @property
    def exact(self) -> bool:
        return not (self.wrong or self.tainted or self.rewritten) and self.drafts


def hit_case(policy: str, page_size: int, shared: int, k: int = 4) -> HitCase:
    """A live donor, a second request that shares ``shared`` tokens with it, and a round of both."""
    spec = Spec(k, groups=(CacheGroup(page_size),))
    donor: list[Event] = [Admit("a", PROMPT), *(Decode((("a", accept),)) for accept in OUTPUT)]
    sharer: list[Event] = [Admit("b", shared + k, like=("a", shared)), Decode((("b", 1), ("a", 1)))]
    timeline = Timeline(Scenario(spec, events=(*donor, *sharer)), policy)
    result = outcome(timeline, DesignDrafter(DESIGNS["frontier"], timeline.config()))
    mine = timeline.live["b"]
    first = next(v for v in result.verdicts if "b" in v.drafts_equal)
    entries = [e for e in first.entries if e.request == "b"]
    return HitCase(
        policy=policy,
        page_size=page_size,
        shared=shared,
        hit=mine.hit,
        wrong=sum(e.state in CAUSES for e in entries),
        tainted=sum(e.state == TAINTED for e in entries),
        rewritten=sum(f.code == "FO209" for f in result.findings),
        drafts=all(v.drafts_equal.get("b", True) for v in result.verdicts),
    )


def study(
    policies: Sequence[str] = tuple(POLICIES), pages: Sequence[int] = PAGES, shared: Sequence[int] = SHARED, k: int = 4
) -> list[HitCase]:
    """Every policy, page size and point of divergence."""
    return [hit_case(policy, page, n, k) for policy in policies for page in pages for n in shared]


def table(cases: Sequence[HitCase]) -> str:
    """Markdown: a row per policy and page size, over all points of divergence."""
    head = (
        "| policy | page | points of divergence | entries wrong (mean, most) | tainted (mean) | shared pages changed | "
        "drafts differ at | tokens recomputed (mean, most) | exact |"
    )
    return "\n".join([head, "| --- |" + " ---: |" * 7 + " --- |", *_rows(cases)])


def divergence_table(cases: Sequence[HitCase], page_size: int) -> str:
    """Markdown: per policy, "wrong entries / tokens recomputed" at each point of divergence, of one page size."""
    mine = [case for case in cases if case.page_size == page_size]
    points = sorted({case.shared for case in mine})
    lines = ["| policy | " + " | ".join(map(str, points)) + " |", "| --- |" + " ---: |" * len(points)]
    for policy in dict.fromkeys(case.policy for case in mine):
        cells = [f"{case.wrong} / {case.recomputed}" for case in mine if case.policy == policy]
        lines.append(f"| `{policy}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _rows(cases: Sequence[HitCase]) -> Iterator[str]:
    groups: dict[tuple[str, int], list[HitCase]] = {}
    for case in cases:
        groups.setdefault((case.policy, case.page_size), []).append(case)
    for (policy, page), mine in groups.items():
        n = len(mine)
        wrong, cost = [case.wrong for case in mine], [case.recomputed for case in mine]
        yield (
            f"| `{policy}` | {page} | {n} | {sum(wrong) / n:.1f}, {max(wrong)} | "
            f"{sum(case.tainted for case in mine) / n:.1f} | {sum(case.rewritten for case in mine)} | "
            f"{sum(not case.drafts for case in mine)} | {sum(cost) / n:.1f}, {max(cost)} | "
            f"{'yes' if all(case.exact for case in mine) else 'no'} |"
        )


if __name__ == "__main__":
    found = study()
    print(table(found), divergence_table(found, 4), sep="\n\n")
