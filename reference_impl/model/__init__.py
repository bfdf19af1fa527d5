"""A real language model and its multi-depth MTP drafter: dense for training, paged for serving."""
