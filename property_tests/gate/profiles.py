"""How much a gate run does."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Profile:
    """scenarios, bulk_rounds: per system; exhaustive: (k, rounds) pairs; traces: (k, rounds) pairs, k is what accept
    lengths are clipped to, and above so many rounds only every n-th sequence is driven; trace_block: rounds a trace
    drives one request for; shards: tasks the random work is split into; twice: scenarios run a
    second time, to see the same bytes; served: prompts that the bundled model is given, and output tokens of each."""

    name: str
    scenarios: int
    bulk_rounds: int
    exhaustive: tuple[tuple[int, int], ...]
    traces: tuple[tuple[int, int], ...]
    trace_block: int
    shards: int
    twice: int
    served: tuple[int, int] = (0, 0)

    def light(self) -> Profile:
        """For systems that stand beside the ones that a run is about: the same checks on a part of the work, the
        inductive step over the configurations of "dev", real traces at k = 4 only."""
        return replace(
            self,
            name="dev",
            scenarios=self.scenarios // 8,
            bulk_rounds=self.bulk_rounds // 5,
            exhaustive=tuple(sorted(self.exhaustive, key=lambda point: point[0] ** point[1])[:2]),
            traces=((4, 20_000),),
            shards=1,
            twice=5,
        )


PROFILES = {
    profile.name: profile
    for profile in (
        Profile("dev", 200, 20_000, ((2, 6), (3, 5), (4, 4)), ((4, 20_000),), 32, 2, 10, (8, 16)),
        Profile("ci", 1_010, 105_000, ((2, 6), (3, 6), (4, 6)), ((4, 200_000), (8, 20_000)), 32, 4, 15, (16, 32)),
        Profile(
            "nightly",
            20_000,
            5_000_000,
            ((2, 10), (3, 8), (4, 8), (5, 6), (6, 5)),
            ((3, 10**9), (4, 10**9), (8, 10**9), (16, 10**6)),
            256,
            16,
            200,
            (48, 64),
        ),
    )
}
