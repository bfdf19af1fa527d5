"""The gate and all that drives a system under test: probe, strategies, scenarios, mutants, replay, command line."""
