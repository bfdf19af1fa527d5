"""Every operation that the tape serves or refuses, tried in a real capture. On a GPU: ``capture_list.py --out FILE``.

The differences are what the tape's docstring must say.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from pathlib import Path
from typing import Any

import torch

from frontier_oracle.cuda_impl.errors import CaptureRefused
from frontier_oracle.cuda_impl.graph import CudaGraph

sys.path.insert(0, str(Path(__file__).parent))
from test_tape import REFUSED, SERVED  # noqa: E402


def captured(operation: Any) -> str:
    """ "" if a graph serves the operation, else the reason."""
    x = torch.tensor([3, 1, 0, 2], device="cuda")
    try:
        CudaGraph().capture(lambda: operation(x))
    except (CaptureRefused, TypeError, BufferError) as error:
        return str(error)
    return ""


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    warnings.simplefilter("ignore")  # a refused capture leaves an empty graph, of which torch warns
    for operation in SERVED.values():
        operation(torch.tensor([3, 1, 0, 2], device="cuda"))
    rows = []
    for refused, operations in ((False, SERVED), (True, REFUSED)):
        for name, operation in operations.items():
            reason = captured(operation)
            rows.append({"operation": name, "tape_refuses": refused, "graph_refuses": bool(reason), "reason": reason})
    differences = [row["operation"] for row in rows if row["tape_refuses"] != row["graph_refuses"]]
    Path(args.out).write_text(json.dumps({"operations": rows, "differences": differences}, indent=1))
    print("differences between tape and graph:", differences)


if __name__ == "__main__":
    main()
