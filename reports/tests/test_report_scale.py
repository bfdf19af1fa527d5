"""Ten million rounds are reported in under a minute and 2 GB, and time grows linearly with the rounds."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

CHILD = """
import json, resource, sys, time
started = time.perf_counter()
from frontier_oracle.reports.report import report
result = report([sys.argv[1]], sys.argv[2])
print(json.dumps({"seconds": time.perf_counter() - started, "rounds": result.summary["inputs"][0]["rounds"],
                  "mean": result.summary["inputs"][0]["headline"]["al_raw"]["value"],
                  "mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""
P, DRAFTS = 0.6, 7


def synthetic(path: Path, requests: int, per_request: int, *, shuffled: bool = False) -> None:
    """A canonical Parquet file of geometric rounds with every column that the analyses use."""
    n = requests * per_request
    rng = np.random.default_rng(requests)
    accepted = np.minimum(rng.geometric(1 - P, n) - 1, DRAFTS).astype(np.int32)
    ids = np.repeat(np.arange(requests, dtype=np.int32), per_request)
    total = np.cumsum(accepted + 1, dtype=np.int64)
    before = np.repeat(total[::per_request] - accepted[::per_request] - 1, per_request)
    out_pos = (total - accepted - before).astype(np.int32)
    names = pa.array([f"request-{i:08d}" for i in range(requests)])
    table = pa.table(
        {
            "request_id": pa.DictionaryArray.from_arrays(pa.array(ids), names),
            "round": np.tile(np.arange(per_request, dtype=np.int32), requests),
            "drafted": np.full(n, DRAFTS, np.int32),
            "al_raw": accepted + 1,
            "al_committed": accepted + 1,
            "out_pos": out_pos,
            "ctx_len": out_pos + 100,
            "category": pa.DictionaryArray.from_arrays(pa.array(ids % 4), pa.array(["chat", "code", "math", "rag"])),
        }
    )
    if shuffled:
        table = table.take(pa.array(rng.permutation(n)))
    pq.write_table(table, path, row_group_size=1 << 20)


def run(path: Path, out: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(path), str(out)], capture_output=True, text=True, check=True
    )
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(f"{result['rounds']:>12,} rounds  {result['seconds']:6.1f} s  {result['mb']:7.0f} MB")
    return result


def test_a_hundred_thousand_rounds_in_any_order_give_the_closed_form_mean(tmp_path: Path) -> None:
    synthetic(tmp_path / "a.parquet", 500, 200, shuffled=True)
    result = run(tmp_path / "a.parquet", tmp_path / "out")
    assert result["rounds"] == 100_000
    assert result["mean"] == pytest.approx((1 - P ** (DRAFTS + 1)) / (1 - P), abs=0.02)


@pytest.mark.slow
def test_ten_million_rounds(tmp_path: Path) -> None:
    """Timings are printed; the growth from 2.5 to 10 million is bounded by that of a linear cost."""
    measured = []
    for millions in (2.5, 5, 10):
        synthetic(tmp_path / "a.parquet", int(millions * 5000), 200)
        measured.append(run(tmp_path / "a.parquet", tmp_path / "out"))
    assert measured[-1]["seconds"] < 60 and measured[-1]["mb"] < 2048
    assert measured[-1]["seconds"] < 1.25 * 4 * measured[0]["seconds"]


@pytest.mark.slow
@pytest.mark.parametrize("shuffled", [False, True])
def test_ten_million_rounds_of_a_million_short_requests(tmp_path: Path, shuffled: bool) -> None:
    synthetic(tmp_path / "a.parquet", 1_000_000, 10, shuffled=shuffled)
    result = run(tmp_path / "a.parquet", tmp_path / "out")
    assert result["seconds"] < 60 and result["mb"] < 2048
