"""A real model behind the contract: prompts are served with speculative decoding, under any drafter design."""
