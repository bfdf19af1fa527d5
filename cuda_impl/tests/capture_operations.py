"""Operations that a captured round may meet, by what the tape does with them, and how an outcome is found out.

Each takes x [4] int64 on some device. An outcome is "served" (a replay on other values does what eager does),
"refused", or "not replayed": captured without a word, and a replay does not do it.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import tree_leaves

from frontier_oracle.cuda_impl.graph import Capture

Operation = Callable[[Tensor], Any]
VALUES, OTHER_VALUES = [3, 1, 0, 2], [1, 5, 2, 0]


def elsewhere(x: Tensor) -> Tensor:
    """x + 1 in place, in another thread."""
    thread = threading.Thread(target=x.add_, args=(1,))
    thread.start()
    thread.join()
    return x


REFUSED: dict[str, Operation] = {
    "item": lambda x: x[0].item(),
    "bool": lambda x: bool(x[0] > 0),
    "int": lambda x: int(x.max()),
    "tolist": lambda x: x.tolist(),
    "numpy": lambda x: x.numpy(),
    "np.asarray": lambda x: np.asarray(x),
    "cpu": lambda x: x.cpu(),
    "repr": lambda x: repr(x),
    "np.from_dlpack": lambda x: np.from_dlpack(x),
    "apply_": lambda x: x.apply_(lambda value: value + 1),
    "map_": lambda x: x.map_(x, lambda a, b: a + b),
    "equal": lambda x: torch.equal(x, x + 0),
    "allclose": lambda x: torch.allclose(x, x + 0),
    "nonzero": lambda x: x.nonzero(),
    "argwhere": lambda x: torch.argwhere(x),
    "bincount": lambda x: torch.bincount(x),
    "one_hot": lambda x: F.one_hot(x),
    "unique": lambda x: torch.unique(x),
    "unique, unsorted": lambda x: torch._unique(x),
    "unique rows": lambda x: torch.unique(x[:, None], dim=0),
    "unique_consecutive": lambda x: torch.unique_consecutive(x),
    "unique_consecutive rows": lambda x: torch.ops.aten.unique_dim_consecutive(x[:, None], 0),
    "repeat_interleave": lambda x: x.repeat_interleave(x),
    "masked_select": lambda x: x.masked_select(x > 0),
    "mask index": lambda x: x[x > 0],
    "byte mask index": lambda x: x[(x > 0).byte()],
    "index_put with a mask": lambda x: x.index_put((x > 0,), x[:1] * 2),
    "masked rows put": lambda x: x.__setitem__(x > 0, x),
    "one device value put under a mask": lambda x: x.__setitem__(x > 0, x[:1] * 2),
    "linalg.lstsq": lambda x: torch.linalg.lstsq(torch.diag(x.double() + 1), x.double()[:, None])[0],
    "ctc_loss": lambda x: F.ctc_loss(x.float().view(4, 1, 1).expand(4, 1, 3), x[None, 1:2] * 0 + 1, (4,), (1,)),
    "list index": lambda x: x[[0, 1]],
    "tensor of host values": lambda x: x + torch.tensor([1, 2, 3, 4], device=x.device),
    "tensor of one host value": lambda x: x + torch.tensor(1),
    "new_tensor": lambda x: x + x.new_tensor([1, 2, 3, 4]),
    "as_tensor": lambda x: x + torch.as_tensor([1, 2, 3, 4], device=x.device),
    "asarray": lambda x: x + torch.asarray([1, 2, 3, 4], device=x.device),
    "from_numpy": lambda x: x + torch.from_numpy(np.arange(4)).to(x.device),
    "lift_fresh": lambda x: torch.ops.aten.lift_fresh(x) + 1,
    "lift_fresh_copy": lambda x: torch.ops.aten.lift_fresh_copy(x),
    "data": lambda x: setattr(x, "data", torch.zeros(4, dtype=x.dtype, device=x.device)),
    "resize_": lambda x: x.resize_(8),
    "resize_as_": lambda x: x.resize_as_(torch.zeros(8, dtype=x.dtype, device=x.device)),
    "a storage read": lambda x: x + sum(x.untyped_storage().tolist()),
    "set_": lambda x: x.set_(torch.zeros(4, dtype=x.dtype, device=x.device)),
}
SERVED: dict[str, Operation] = {
    "arithmetic": lambda x: x * 2 + 1,
    "zeros and arange": lambda x: torch.zeros_like(x) + torch.arange(4, device=x.device) + x,
    "gather": lambda x: x.gather(0, x % 4),
    "index": lambda x: x[x % 4],
    "one value put under a mask": lambda x: x.clone().masked_fill_(x > 2, 0),
    "where": lambda x: torch.where(x > 2, x, 0),
    "cat and views": lambda x: torch.cat([x[1:], x[:1]]).view(2, 2).t().reshape(-1),
    "empty_like, then filled": lambda x: torch.empty_like(x).copy_(x),
    "empty, then filled": lambda x: torch.empty(4, dtype=x.dtype, device=x.device).copy_(x),
    "empty_strided, then filled": lambda x: torch.empty_strided((4,), (1,), dtype=x.dtype, device=x.device).copy_(x),
    "new_empty, then filled": lambda x: x.new_empty(4).copy_(x),
    "new_empty_strided, then filled": lambda x: x.new_empty_strided((4,), (2,)).copy_(x),
    "repeat_interleave of a known size": lambda x: x.repeat_interleave(x * 0 + 1, output_size=4),
    "scatter_reduce": lambda x: torch.zeros_like(x).scatter_reduce_(0, x % 4, x, "amax"),
}
# What a graph refuses or loses and the tape cannot tell.
PASSED: dict[str, Operation] = {
    'to("cpu")': lambda x: x.to("cpu") + 1,
    "multinomial": lambda x: torch.multinomial((x == x.max()).float(), 1),
    "linalg.inv": lambda x: torch.linalg.inv(torch.diag(x.double() + 1)),
    "frombuffer": lambda x: x + torch.frombuffer(bytearray(32), dtype=torch.int64).to(x.device),
    "from_dlpack": lambda x: x + torch.from_dlpack(np.arange(4)).to(x.device),
    "another thread": elsewhere,
}
OPERATIONS = REFUSED | SERVED | PASSED
_MOVED = "the graph goes on with the old address; the tape says so at once"
_FRESH = "called by name, it takes a tensor of the device; the tape knows it from host values"
_INSIDE = "synchronizes inside, on a GPU alone"
_HOST = "host memory comes in without an operation that the tape sees; on a CPU nothing has to be copied"
# One reason for each operation on which tape and graph may differ.
WHY = {
    "resize_": _MOVED, "resize_as_": _MOVED, "set_": _MOVED, "data": _MOVED,
    "lift_fresh": _FRESH, "lift_fresh_copy": _FRESH, "multinomial": _INSIDE, "linalg.inv": _INSIDE,
    "frombuffer": _HOST, "from_dlpack": _HOST,
    'to("cpu")': "of a CPU tensor it is no copy, and looks like work that stays on the device",
    "tensor of one host value": "a graph bakes a zero-dimensional CPU tensor as it does a Python number",
    "linalg.lstsq": "torch tags its shapes as dependent on data, which they are not here",
    "another thread": "a tape records its own thread alone",
}  # fmt: skip


def outcome(capture: Capture, device: str, operation: Operation) -> tuple[str, str]:
    """(outcome, reason) of one operation under ``capture``; the reason is empty when it is served."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # byte masks are deprecated; a refused capture leaves an empty graph
        with suppress(Exception):  # made ready as a round is before its capture: kernels loaded, handles made
            operation(torch.tensor(VALUES, device=device))
        return _outcome(capture, device, operation)


def _outcome(capture: Capture, device: str, operation: Operation) -> tuple[str, str]:
    x, result = torch.tensor(VALUES, device=device), []
    address = x.data_ptr()
    try:
        capture.capture(lambda: result.append(operation(x)))
    except Exception as error:  # whatever stands in the way: a tensor on a GPU has no numpy()
        return "refused", (str(error).splitlines() or [type(error).__name__])[0]
    if x.data_ptr() != address:
        return "not replayed", "the input moved, a replay goes on with the old address"
    x.copy_(torch.tensor(OTHER_VALUES, device=device))
    capture.replay()
    wanted = torch.tensor(OTHER_VALUES, device=device)
    wanted_result = operation(wanted)
    same = torch.equal(x, wanted) and _equal(result[0], wanted_result)
    return ("served", "") if same else ("not replayed", "a replay on other values differs from eager")


def _equal(a: Any, b: Any) -> bool:
    pairs = list(zip(tree_leaves(a), tree_leaves(b), strict=True))
    return all(torch.equal(p, q) if isinstance(p, Tensor) else np.array_equal(p, q) for p, q in pairs)
