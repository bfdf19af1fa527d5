"""Every Triton kernel: equal to the loops in Triton's interpreter, and compiled for Hopper without a GPU.

The interpreter must be chosen before triton is imported, so it runs in a process of its own.
"""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed: pip install 'frontier-oracle[cuda]'"
)


def interpreted(script: str, *arguments: str) -> str:
    """Output of a test program in Triton's interpreter; fails with its stderr."""
    environment = os.environ | {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(HERE / script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_the_bounds_of_every_access_are_checked_in_the_interpreter():
    """The checks below all run under it."""
    assert interpreted("bounds.py") == "clean\ncaught read\ncaught written\ncaught read\ncaught written\n"


def test_the_kernels_equal_the_loops_and_stay_inside_their_tensors():
    assert interpreted("books_check.py", "2", "cpu", "4,3,16", "8,7,24", "3,3,8", "2,1,8", "5,2,40") == "equal\n"


def test_the_ring_convolution_equals_the_loops():
    assert interpreted("conv_check.py", "cpu", "12", "1", "2", "4") == "equal\n"


def test_real_heads_give_the_same_drafts_in_place_and_by_contract():
    assert interpreted("head_check.py", "cpu") == "equal\n"


def test_a_system_of_kernels_passes_the_gate_eager_and_on_a_tape():
    assert interpreted("kernels_gate.py") == "equal\n"


def test_every_kernel_compiles_for_hopper_with_wide_loads():
    from frontier_oracle.cuda_impl import conv_kernels, head_kernels, kernels
    from frontier_oracle.cuda_impl.compile_check import all_kernels, widest_load

    compiled = all_kernels()
    defined = [name for name in vars(kernels) | vars(conv_kernels) | vars(head_kernels) if name.endswith("_kernel")]
    assert sorted(compiled) == sorted(name.removesuffix("_kernel") for name in defined)
    assert all(len(kernel.asm["cubin"]) for kernel in compiled.values())
    assert widest_load(compiled["window"]) == 16
    assert widest_load(compiled["extend_stash"]) == 16
