"""Tier 0: histories of rounds that an engine logged, judged without running its drafter (docs/history.md)."""
