"""Drafter designs as data: what each does, rule by rule, and where it is known to deviate. One small file an engine."""

from __future__ import annotations

from frontier_oracle.oracle.designs.declaration import (
    DONOR_CONTINUATION,
    MID_CHUNK_TAIL,
    SHORT_CHUNK_AFTER_HIT,
    SHORT_PROMPT,
    Design,
    Deviation,
)
from frontier_oracle.oracle.designs.eagle import EAGLE_CHAIN
from frontier_oracle.oracle.designs.lightllm import LIGHTLLM_VANILLA
from frontier_oracle.oracle.designs.llama_cpp import LLAMA_CPP
from frontier_oracle.oracle.designs.ours import FRONTIER, MINIMAL
from frontier_oracle.oracle.designs.sglang import SGLANG_BOUNDARY_FIX, SGLANG_DEFAULT
from frontier_oracle.oracle.designs.tensorrt_llm import TENSORRT_LLM_VANILLA
from frontier_oracle.oracle.designs.tokenspeed import (
    TOKENSPEED_FRONTIER,
    TOKENSPEED_HOOK,
    TOKENSPEED_LOOKBACK,
    TOKENSPEED_UNREPAIRED,
)
from frontier_oracle.oracle.designs.vllm import VLLM_MULTI_MODULE, VLLM_STEP3P5

__all__ = [
    "DESIGNS",
    "DONOR_CONTINUATION",
    "EAGLE_CHAIN",
    "FRONTIER",
    "LIGHTLLM_VANILLA",
    "LLAMA_CPP",
    "MID_CHUNK_TAIL",
    "MINIMAL",
    "SGLANG_BOUNDARY_FIX",
    "SGLANG_DEFAULT",
    "SHORT_CHUNK_AFTER_HIT",
    "SHORT_PROMPT",
    "TENSORRT_LLM_VANILLA",
    "TOKENSPEED_FRONTIER",
    "TOKENSPEED_HOOK",
    "TOKENSPEED_LOOKBACK",
    "TOKENSPEED_UNREPAIRED",
    "VLLM_MULTI_MODULE",
    "VARIANTS",
    "VLLM_STEP3P5",
    "Design",
    "Deviation",
]

DESIGNS = {
    design.name: design
    for design in (
        TOKENSPEED_UNREPAIRED,
        TOKENSPEED_LOOKBACK,
        TOKENSPEED_FRONTIER,
        SGLANG_DEFAULT,
        SGLANG_BOUNDARY_FIX,
        VLLM_MULTI_MODULE,
        VLLM_STEP3P5,
        TENSORRT_LLM_VANILLA,
        LLAMA_CPP,
        LIGHTLLM_VANILLA,
        EAGLE_CHAIN,
        FRONTIER,
        MINIMAL,
    )
}

# Designs that a system may declare and that the atlas leaves out: on its scenarios each is like one of the above.
VARIANTS = {TOKENSPEED_HOOK.name: TOKENSPEED_HOOK}
