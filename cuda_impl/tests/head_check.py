"""Real heads in the drafter: the in-place call gives what the contract's call gives, and masked rows are zero.

A program for Triton's interpreter or a GPU: ``head_check.py DEVICE``.
"""

from __future__ import annotations

import sys
from pathlib import Path

import torch

from frontier_oracle.cuda_impl.head import MtpHeads
from frontier_oracle.cuda_impl.system import cuda_eager
from frontier_oracle.oracle.contract import DraftConfig
from frontier_oracle.oracle.spec import CacheGroup, Spec

sys.path.insert(0, str(Path(__file__).parent))
from slow_loops import Feeder  # noqa: E402


class ByContract:
    """The same heads without ``forward_into``: flat ids, drafts returned. Keeps the outputs of the last depth."""

    def __init__(self, heads: MtpHeads) -> None:
        self.heads, self.load_conv_state = heads, heads.load_conv_state

    def forward(self, inputs):
        self.inputs = inputs
        self.outputs, drafts = self.heads.forward(inputs)
        return self.outputs, drafts


def check(device: str) -> None:
    spec = Spec(k=3, groups=(CacheGroup(4),))
    config = DraftConfig(spec, 4, 3, (4 * 8 + 1,), (8,), hidden_size=32, dtype="float32", device=device)
    made = []
    for _ in range(2):
        torch.manual_seed(7)
        made.append(MtpHeads(config, vocabulary=50, kv_heads=2, intermediate=48, head_size=8))
    contract = ByContract(made[1])
    twins = cuda_eager(config, made[0]), cuda_eager(config, contract)
    feeder = Feeder(config, 3)
    for slots, padded in (([1, 2], 1), ([2, 3, 1], 0), ([3], 0)):
        batch = feeder.decode(slots, padded)
        ids = batch.verify_ids % 50
        batch = type(batch)(**{**vars(batch), "verify_ids": ids, "hidden": batch.hidden.float()})
        first, second = (drafter.decode(batch) for drafter in twins)
        assert torch.equal(first, second)
        assert ((first >= 0) & (first < 50)).all()
        masked = contract.inputs.out_cache_loc[0] < 4
        assert masked.any() or not padded
        assert not contract.outputs[masked].any()
        assert contract.outputs[~masked].isfinite().all() and contract.outputs[~masked].any()
    print("equal")


if __name__ == "__main__":
    if sys.argv[1] == "cpu":
        import bounds
        import writers

        bounds.install()
        writers.install()
    check(sys.argv[1])
