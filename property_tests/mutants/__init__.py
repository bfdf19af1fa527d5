"""Planted faults: a gate that cannot fail is worth nothing, so every rule and index term has one it must find."""
