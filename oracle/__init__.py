"""The truth: what a multi-depth MTP drafter's books must hold. Standard library and numpy only."""
