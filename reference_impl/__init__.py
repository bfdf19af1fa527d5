"""Drafters in eager torch, to learn the algorithm from, and a small real draft head on the same contract."""
