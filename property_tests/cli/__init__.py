"""The command line: one small file per verb. ``main`` is the console script."""

from __future__ import annotations

from frontier_oracle.property_tests.cli.app import main

__all__ = ["main"]
