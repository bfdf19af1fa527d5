"""The equivalence gate: checks, their results, and the run that puts them together."""
