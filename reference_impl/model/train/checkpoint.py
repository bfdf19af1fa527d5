"""Where a run stands, on disk: weights and optimizer state in safetensors, progress in their metadata."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from frontier_oracle.oracle.errors import UsageError

NAME = "checkpoint.safetensors"


def write(folder: Path, named: dict[str, Tensor], optimizer: torch.optim.Optimizer, progress: dict[str, Any]) -> None:
    """Replace the folder's checkpoint in one step, so that an interrupted run leaves the one before."""
    tensors = {f"weight/{name}": tensor.detach() for name, tensor in named.items()}
    for name, tensor in named.items():
        for key, value in optimizer.state[tensor].items():
            tensors[f"{key}/{name}"] = torch.as_tensor(value)
    tensors = {name: tensor.to("cpu").contiguous() for name, tensor in tensors.items()}
    save_file(tensors, folder / f"{NAME}.new", {"progress": json.dumps(progress)})
    os.replace(folder / f"{NAME}.new", folder / NAME)


def read_progress(folder: Path) -> dict[str, Any] | None:
    """What the run had done, None where there is no checkpoint. Raises UsageError for one that cannot be read."""
    file = folder / NAME
    if not file.exists():
        return None
    try:
        with safe_open(file, framework="pt") as opened:
            progress: dict[str, Any] = json.loads(opened.metadata()["progress"])
            return progress
    except (SafetensorError, OSError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{file}: not a readable checkpoint ({error}); remove it to start again") from None


def restore(folder: Path, named: dict[str, Tensor], optimizer: torch.optim.Optimizer) -> None:
    """Fill weights and optimizer state. ``named`` in the order in which the optimizer has its parameters."""
    state: dict[int, dict[str, Tensor]] = {}
    with safe_open(folder / NAME, framework="pt") as opened:
        keys = {key.split("/", 1)[0] for key in opened.keys()} - {"weight"}  # noqa: SIM118 (no mapping)
        for i, (name, tensor) in enumerate(named.items()):
            tensor.data.copy_(opened.get_tensor(f"weight/{name}"))
            state[i] = {key: opened.get_tensor(f"{key}/{name}") for key in keys}
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
