"""Fuzzing: work units by number, workers, the ledger of what is done, the corpus of what was found."""
