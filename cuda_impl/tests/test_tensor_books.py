"""The plain tensor operations against loops over Python ints."""

import sys
from pathlib import Path

import pytest

from frontier_oracle.cuda_impl.tensor_books import TensorBooks

sys.path.insert(0, str(Path(__file__).parent))
from books_check import run  # noqa: E402


@pytest.mark.parametrize(("k", "steps"), [(2, 1), (2, 2), (3, 2), (4, 3), (4, 1), (4, 4), (8, 7), (5, 3)])
def test_tensor_books_equal_the_loops(k, steps):
    run(TensorBooks, k, steps, rounds=12, hidden_size=16)
