"""A program for Triton's interpreter: systems on the real kernels, judged like any other, eager and on a tape."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from frontier_oracle.cuda_impl.system import cuda_eager, cuda_tape_whole
from frontier_oracle.cuda_impl.triton_books import TritonBooks
from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.property_tests.bulk import run_bulk
from frontier_oracle.property_tests.probe import DigestProbe

sys.path.insert(0, str(Path(__file__).parent))
import bounds  # noqa: E402
import writers  # noqa: E402
from slow_loops import rounds_config  # noqa: E402
from twins import check_twins  # noqa: E402

bounds.install()
writers.install()
config = rounds_config(4)
assert isinstance(cuda_eager(config, DigestProbe(config)).books, TritonBooks)
accepts = np.array([[1, 4, 2], [3, 1, 1], [2, 2, 4]])
for system in (cuda_eager, cuda_tape_whole):
    spec = Spec(k=4, groups=(CacheGroup(4), CacheGroup(2, window=8)))
    assert run_bulk(system, spec, accepts, prompt=6, chunks=[3, 1, 2], pad_to=5).failures == []
    assert run_bulk(system, Spec(k=3, steps=3, hidden="target"), accepts.clip(max=3), prompt=1).failures == []
assert check_twins(config, cuda_tape_whole, seed=1) > 0
print("equal")
