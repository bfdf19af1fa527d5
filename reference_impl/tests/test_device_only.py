"""A decode round reads nothing back to the host: no item(), no data-dependent shape (S9, S24)."""

from __future__ import annotations

import pytest
import torch
from drafting import Engine, StubModel, draft_config, paged_head
from torch.utils._python_dispatch import TorchDispatchMode

from frontier_oracle.oracle.spec import CacheGroup, Spec
from frontier_oracle.reference_impl import frontier, tokenspeed

HOST_READS = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "is_nonzero", "equal"}


class HostReadGuard(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        if name in HOST_READS:
            raise AssertionError(f"decode reads the device: {name}")
        if name in {"index", "index_put", "index_put_"}:
            assert all(i is None or i.dtype != torch.bool for i in args[1]), "boolean index: data-dependent shape"
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("make", [frontier.make, tokenspeed.make])
@pytest.mark.parametrize("real", [False, True], ids=["stub", "head"])
def test_decode_reads_nothing_back(make, real: bool) -> None:
    config = draft_config(Spec(k=4, groups=(CacheGroup(4), CacheGroup(4, window=6))), size=8)
    model = paged_head(config) if real else StubModel()
    eng = Engine(config, make, model)
    request = eng.admit(6, 1)
    eng.extend([(request, 6)])
    decode = eng.system.decode

    def guarded(batch):
        with HostReadGuard():
            return decode(batch)

    eng.system.decode = guarded
    if not real:
        request.drafts = [1, 2, 3]
    eng.decode([(request, 3)], pad_to=3)


def test_the_guard_sees_a_host_read() -> None:
    with HostReadGuard(), pytest.raises(AssertionError):
        torch.ones(1).item()
