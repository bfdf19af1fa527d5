"""Adapters of public engines: each loads the engine's own drafter from a checkout, unmodified (docs/engines.md)."""
