"""Training of a target and its MTP chain: corpus, recipe, loop, checkpoints, accuracy by depth."""
