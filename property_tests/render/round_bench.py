"""``bench round`` for people: the tables that a GPU run keeps, each with its method."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from frontier_oracle.cuda_impl.gpu_table import bench_table, round_table


def render(found: Mapping[str, Any]) -> str:
    """The machine, then the parts that were measured."""
    e = found["environment"]
    parts = [f"{e['gpu']}, CUDA {e['cuda']}, torch {e['torch']}, commit {e['commit'] or '-'}"]
    if "bench" in found:
        parts += ["Bookkeeping of a round", bench_table(found["bench"]), found["bench_method"]]
    if "round" in found:
        parts += ["The round with real heads", round_table(found["round"]), found["round_method"]]
    return "\n\n".join(parts)
