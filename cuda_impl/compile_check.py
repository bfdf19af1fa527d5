"""Compiles every kernel for Hopper (sm_90) on a machine without a GPU.

``python -m frontier_oracle.cuda_impl.compile_check`` prints, per kernel, the cubin's size and its widest global loads; a kernel that does not compile raises.
"""

from __future__ import annotations

import re
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

from frontier_oracle.cuda_impl import kernels

HOPPER = GPUTarget("cuda", 90, 32)
POINTERS = {"hidden": "*bf16", "verify_hidden": "*bf16", "stash_hidden": "*bf16", "chunk_hidden": "*bf16"}
SCALARS = {"table_rows": "i32", "loc_stride": "i32", "rows": "i32", "depth": "i32"}


def compile_kernel(kernel: Any, pointers: dict[str, str], **constants: Any) -> Any:
    """Compile one kernel: int32 pointers but for ``pointers``, all of them 16-byte aligned as torch allocates them."""
    signature, aligned = {}, {}
    for i, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name in SCALARS:
            signature[name] = SCALARS[name]
        else:
            signature[name] = pointers.get(name, "*i32")
            aligned[(i,)] = [["tt.divisibility", 16]]
    source = triton.compiler.ASTSource(kernel, signature=signature, constexprs=constants, attrs=aligned)
    return triton.compile(source, target=HOPPER, options={"num_warps": 4})


def all_kernels(k: int = 8, hidden_size: int = 1536, block: int = 512) -> dict[str, Any]:
    """Every kernel of the books, compiled for one shape."""
    chunks = -(-hidden_size // block)
    paged = {"PAGES": (16, 4), "COLS": (2048, 8)}
    moves = {"K": k, "H": hidden_size, "BLOCK": block, "CHUNKS": chunks}
    window = POINTERS | {"req_pool_indices": "*i64"}
    plain = {"K": k, "STEPS": k - 1}
    rows = {"BLOCK": 128, "CHUNKS": chunks}
    return {
        "window": compile_kernel(kernels.window_kernel, window, **moves, KP=k, STEPS=k - 1, **paged),
        "extend_rows": compile_kernel(kernels.extend_rows_kernel, POINTERS, K=k, **rows, **paged),
        "extend_ids": compile_kernel(kernels.extend_ids_kernel, POINTERS, **plain, **rows),
        "extend_hidden": compile_kernel(kernels.extend_hidden_kernel, POINTERS, **moves),
        "extend_stash": compile_kernel(kernels.extend_stash_kernel, POINTERS, **moves, KP=k, STEPS=k - 1),
    }


def widest_load(compiled: Any) -> int:
    """Bytes of the widest global load in the PTX."""
    found = re.findall(r"ld\.global(?:\.\w+)*?(?:\.v(\d))?\.[bsuf](\d+)", compiled.asm["ptx"])
    return max(int(lanes or 1) * int(bits) // 8 for lanes, bits in found)


if __name__ == "__main__":
    for name, compiled in all_kernels().items():
        print(f"{name}: cubin of {len(compiled.asm['cubin'])} bytes, widest global load {widest_load(compiled)} bytes")
