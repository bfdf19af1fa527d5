"""Every Triton kernel: equal to the loops in Triton's interpreter, and compiled for Hopper without a GPU.

The interpreter must be chosen before triton is imported, so it runs in a process of its own.
"""

import ast
import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest

from frontier_oracle.cuda_impl import gpu_run

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


def test_a_cell_of_two_programs_is_found_in_the_interpreter():
    """The checks below all run under this one too."""
    assert interpreted("writers.py").splitlines() == [
        "clean",
        "caught shared_cells: programs 0 and 1 write one cell (12 bytes in all)",
        "caught shared_cells: program 0 reads a cell that program 1 writes",
        "caught two rows of one store write one cell (program 0)",
        "caught window_kernel: programs 0 and 2 write one cell (24 bytes in all)",
    ]


def test_the_kernels_equal_the_loops_and_stay_inside_their_tensors():
    assert interpreted("books_check.py", "2", "cpu", "4,3,16", "8,7,24", "3,3,8", "2,1,8", "5,2,40") == "equal\n"


def test_the_ring_convolution_equals_the_loops():
    assert interpreted("conv_check.py", "cpu", "12", "1", "2", "4") == "equal\n"


def kernels_of(source: str) -> set[str]:
    """Every function under a ``jit`` decorator that no other one calls: what a host can launch."""
    jitted = {
        node.name: node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        and {ast.unparse(d).partition("(")[0] for d in node.decorator_list} & {"jit", "triton.jit"}
    }
    called = {
        call.func.id
        for node in jitted.values()
        for call in ast.walk(node)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name)
    }
    return jitted.keys() - called


def test_the_sanitizer_is_given_every_kernel():
    """Its program, here in the interpreter, launches what a search through the sources finds."""
    sources = [p.read_text() for p in HERE.parent.rglob("*.py") if HERE not in p.parents]
    first, last = interpreted(gpu_run.SANITIZED, "cpu").splitlines()
    launched = set(first.removeprefix("launched: ").split())
    assert last == "equal"
    assert set().union(*map(kernels_of, sources)) == launched
    new = "@triton.jit(do_not_specialize=('n',))\ndef new_kernel(x, n):\n    _part(x)\n@jit\ndef _part(x): pass\n"
    assert kernels_of(new) - launched == {"new_kernel"}


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
