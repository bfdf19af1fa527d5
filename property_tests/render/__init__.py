"""Writers: each turns a gate report or a replay, which are data, into one form of text."""
