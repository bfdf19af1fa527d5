"""Compiles every kernel for Hopper (sm_90) on a machine without a GPU.

``python -m frontier_oracle.cuda_impl.compile_check`` prints, per kernel, the cubin's size
and its widest global loads; a kernel that does not compile raises.
"""

from __future__ import annotations

import re
from typing import Any

import triton
from triton.backends.compiler import GPUTarget

from frontier_oracle.cuda_impl import conv_kernels, head_kernels, kernels

HOPPER = GPUTarget("cuda", 90, 32)
BF16 = ("hidden", "verify_hidden", "stash_hidden", "chunk_hidden", "source", "out", "stash")
BF16_MODEL = ("x", "y", "weight", "ring", "ckpt", "embedding", "hidden", "out", "logits")
INTEGERS = ("table_rows", "loc_stride", "rows", "depth", "id_stride", "draft_stride")


def compile_kernel(kernel: Any, pointers: dict[str, str], **constants: Any) -> Any:
    """Compile one kernel: int32 pointers but for ``pointers``, all of them 16-byte aligned as torch allocates them."""
    signature, aligned = {}, {}
    for i, name in enumerate(kernel.arg_names):
        if name in constants:
            signature[name] = "constexpr"
        elif name in INTEGERS:
            signature[name] = "i32"
        else:
            signature[name] = pointers.get(name, "*i32")
            aligned[(i,)] = [["tt.divisibility", 16]]
    source = triton.compiler.ASTSource(kernel, signature=signature, constexprs=constants, attrs=aligned)
    return triton.compile(source, target=HOPPER, options={"num_warps": 4})


def all_kernels(k: int = 8, hidden_size: int = 1536, block: int = 512) -> dict[str, Any]:
    """Every kernel, compiled for one shape."""
    chunks, width = -(-hidden_size // block), {"H": hidden_size, "BLOCK": block}
    paged = {"PAGES": (16, 4), "COLS": (2048, 8)}
    books, model = dict.fromkeys(BF16, "*bf16"), dict.fromkeys(BF16_MODEL, "*bf16")
    window = {"K": k, "KP": k, **width}
    words = {"K": k, "KP": k, "WORDS": hidden_size // 2, "BLOCK": block // 2}
    stash = {"STEPS": k - 1, "CHUNKS": chunks}
    rows = {"BLOCK": 128}
    ring = {"R": k + 3, "PAGE": 16, **width}
    row = 1 << (hidden_size - 1).bit_length()
    return {
        "window": compile_kernel(
            kernels.window_kernel, {"req_pool_indices": "*i64"}, **words, **stash, **paged, STREAM=True
        ),
        "extend_rows": compile_kernel(kernels.extend_rows_kernel, books, **rows, **paged),
        "extend_ids": compile_kernel(kernels.extend_ids_kernel, books, K=k, STEPS=k - 1, **rows),
        "extend_hidden": compile_kernel(kernels.extend_hidden_kernel, books, K=k, CHUNKS=chunks, **width),
        "extend_stash": compile_kernel(kernels.extend_stash_kernel, books, **window, **stash),
        "copy": compile_kernel(kernels.copy_kernel, books, **window),
        "conv_window": compile_kernel(conv_kernels.conv_window_kernel, model, K=k, W=4, **ring),
        "conv_extend": compile_kernel(conv_kernels.conv_extend_kernel, model, W=4, **ring),
        "conv_ring": compile_kernel(conv_kernels.conv_ring_kernel, model, **ring),
        "head_input": compile_kernel(head_kernels.head_input_kernel, model, M=k, H=hidden_size, BLOCK=row),
        "argmax": compile_kernel(head_kernels.argmax_kernel, model, V=32768, BLOCK=8192),
    }


def widest_load(compiled: Any) -> int:
    """Bytes of the widest global load in the PTX."""
    found = re.findall(r"ld\.global(?:\.[\w:]+)*?(?:\.v(\d))?\.[bsuf](\d+)", compiled.asm["ptx"])
    return max(int(lanes or 1) * int(bits) // 8 for lanes, bits in found)


if __name__ == "__main__":
    for name, compiled in all_kernels().items():
        print(f"{name}: cubin of {len(compiled.asm['cubin'])} bytes, widest global load {widest_load(compiled)} bytes")
