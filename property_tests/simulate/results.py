"""What the result files of ``simulate.gpu`` and ``simulate.rounding`` begin with, and how both commands end."""

from __future__ import annotations

import argparse
import datetime
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.files import write_whole
from frontier_oracle.property_tests.cli import exits
from frontier_oracle.property_tests.gate.environment import environment
from frontier_oracle.property_tests.simulate.run import digest


def heading(module: str, args: argparse.Namespace, said: Sequence[str]) -> dict[str, Any]:
    """Date, environment, GPU, command, digest of the weights, file names. said: the options that the command names;
    those that are paths are left out, as the files' folders are. Raises HardwareMissing where the device is not there,
    UsageError for an output file that cannot be one: before anything ran.

    Products of float32 are then of float32 numbers, not of TF32 ones."""
    on_gpu = args.device.startswith("cuda")
    if on_gpu:
        exits.need_cuda(f"--device {args.device}")
    if args.out.is_dir():
        raise UsageError(f"--out {args.out}: is a folder; name a file")
    torch.backends.cuda.matmul.allow_tf32 = False
    options = " ".join(f"--{name.replace('_', '-')} {getattr(args, name)}" for name in said)
    return {
        "date": datetime.date.today().isoformat(),
        "environment": environment() | ({"commit": args.commit} if args.commit else {}),
        "gpu": torch.cuda.get_device_name() if on_gpu else "none",
        "command": f"python -m frontier_oracle.property_tests.simulate.{module} {options}",
        "weights_sha256": digest(args.weights),
        "files": [path.name for path in args.files],
    }


def keep(out: Path, result: dict[str, Any]) -> None:
    """Write the file, whole, as valid JSON: null for what is no finite number. Raises UsageError, one line."""
    try:
        write_whole(out, json.dumps(_finite(result), indent=1, allow_nan=False) + "\n")
    except OSError as error:
        raise UsageError(f"--out {out}: cannot be written ({error.strerror or error}); name a file") from None


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def exit_code(module: str, run: Callable[[], int]) -> int:
    """Of ``run``; what a user got wrong is one line, and 2; missing hardware is one line, and 3."""
    try:
        return run()
    except UsageError as error:
        print(f"{module}: {error}", file=sys.stderr)
        return exits.USAGE
    except exits.HardwareMissing as error:
        print(f"{module}: {error}", file=sys.stderr)
        return exits.HARDWARE
