"""The model's shapes, its Spec, the dense chain's causality, and weights in files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.spec import CacheGroup
from frontier_oracle.reference_impl.model import weights
from frontier_oracle.reference_impl.model.config import ModelConfig
from frontier_oracle.reference_impl.model.train.losses import accuracy
from frontier_oracle.reference_impl.model.weights import WeightsError, load, random_model, save

TINY = ModelConfig(
    vocab_size=50, hidden_size=16, layers=2, heads=4, kv_heads=2, intermediate_size=24, draft_intermediate_size=24,
    windows=(None, 3, None),
)  # fmt: skip


def test_the_spec_follows_from_the_windows() -> None:
    spec = ModelConfig().spec(8, page_size=32)
    assert (spec.k, spec.steps, spec.conv_width) == (8, 7, 4)
    assert spec.groups == (CacheGroup(32), CacheGroup(32, 128))
    assert [spec.window_of(d) for d in range(7)] == list(ModelConfig().windows)
    assert ModelConfig().spec(2).groups == (CacheGroup(16),)
    assert ModelConfig().spec(4, ring_rows=9).ring_rows == 9


def test_what_no_model_can_be_is_refused() -> None:
    with pytest.raises(UsageError, match="7 draft depths"):
        ModelConfig().spec(9)
    for bad in ({"heads": 3}, {"kv_heads": 3}, {"windows": ()}):
        with pytest.raises(UsageError):
            replace(TINY, **bad)


def test_a_depth_reads_its_own_tokens_and_no_later_one() -> None:
    """Depth d at p depends on x[0..p+1+d] and not on x[p+2+d] (S1)."""
    model = random_model(TINY, dtype="float64")
    ids = torch.arange(13)[None] % 50

    def outputs(changed: int) -> list[torch.Tensor]:
        x = ids.clone()
        x[0, changed] = 49
        return model.chain(model.target(x[:, :10]), x, model.target.embedding.weight)

    for changed in range(1, 13):
        pairs = zip(
            outputs(changed), model.chain(model.target(ids[:, :10]), ids, model.target.embedding.weight), strict=True
        )
        for d, (new, old) in enumerate(pairs):
            differs = (new != old).any(-1)[0]
            first = max(0, changed - 1 - d)
            assert not differs[:first].any()
            assert first >= 10 or differs[first]


def test_saved_weights_load_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "SHARD_BYTES", 4000)
    model = random_model(TINY, seed=3)
    (tmp_path / "model-9-of-9.safetensors").write_bytes(b"an older run's")
    assert len(save(model, tmp_path, "float32")) > 2
    again = load(tmp_path)
    assert again.config == TINY
    for name, tensor in model.tensors().items():
        assert torch.equal(again.tensors()[name], tensor), name
    assert load(tmp_path, "float64").target.embedding.weight.dtype == torch.float64


def test_broken_weights_are_named_in_one_line(tmp_path: Path) -> None:
    (path,) = save(random_model(TINY), tmp_path / "right")

    def broken(name: str, content: bytes) -> str:
        (tmp_path / name).mkdir()
        (tmp_path / name / path.name).write_bytes(content)
        with pytest.raises(WeightsError) as caught:
            load(tmp_path / name)
        assert "\n" not in str(caught.value)
        return str(caught.value)

    whole = path.read_bytes()
    assert "not a readable safetensors" in broken("short", whole[:-10])
    assert "not a readable safetensors" in broken("text", b"hello")
    assert "corrupt" in broken("flipped", whole[:-1] + bytes([whole[-1] ^ 1]))
    save_file({"a": torch.zeros(1)}, tmp_path / "foreign.safetensors")
    assert "format None" in broken("foreign", (tmp_path / "foreign.safetensors").read_bytes())
    with pytest.raises(WeightsError, match="no model-"):
        load(tmp_path / "nowhere")


def test_incomplete_and_mixed_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "SHARD_BYTES", 8000)
    first, *_ = save(random_model(TINY), tmp_path)
    other = replace(TINY, norm_eps=1e-6)
    stranger, *_ = save(random_model(other), tmp_path / "other")
    whole = first.read_bytes()
    first.write_bytes(stranger.read_bytes())
    with pytest.raises(WeightsError, match="two models"):
        load(tmp_path)
    first.unlink()
    with pytest.raises(WeightsError, match="expected 1/"):
        load(tmp_path)
    first.write_bytes(whole)
    load(tmp_path)


def test_shards_of_two_models_of_one_shape_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "SHARD_BYTES", 8000)
    first, *_ = save(random_model(TINY), tmp_path)
    stranger, *_ = save(random_model(TINY, seed=1), tmp_path / "other")
    first.write_bytes(stranger.read_bytes())
    with pytest.raises(WeightsError, match="two models"):
        load(tmp_path)


@pytest.mark.parametrize(
    "changes, says",
    [
        ({"shard": None}, "without a number"),
        ({"config": TINY.to_json().replace(f'"heads": {TINY.heads}', '"heads": 0')}, "no usable"),
    ],
)
def test_metadata_that_cannot_be_are_refused(tmp_path: Path, changes: dict[str, str | None], says: str) -> None:
    (path,) = save(random_model(TINY), tmp_path)
    with safe_open(path, framework="pt") as opened:
        metadata = opened.metadata() | changes
    save_file(load_file(path), path, {key: value for key, value in metadata.items() if value is not None})
    with pytest.raises(WeightsError, match=says):
        load(tmp_path)


def test_tensors_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    model = random_model(TINY)
    model.chain.norm.weight.data = torch.zeros(3)
    (path,) = save(model, tmp_path)
    with pytest.raises(WeightsError, match="do not fit"):
        load(tmp_path)
    assert "chain.norm.weight" in load_file(path)


def test_the_bundled_weights_are_the_trained_model() -> None:
    """They load, keep to the size limits, and predict source text."""
    files = list(weights.BUNDLED.glob(weights.SHARDS))
    assert sum(file.stat().st_size for file in files) < 25e6
    assert all(file.stat().st_size < 16 * 2**20 for file in files)
    model = load()
    assert model.config == ModelConfig()
    text = np.frombuffer(Path(weights.__file__).read_bytes(), np.uint8)[: 512 + 8]
    found = accuracy(model, [torch.from_numpy(text.astype(np.int64))[None]])
    assert found["top1"][0] > 0.6
    assert found["agrees"][0] > 0.7 and found["prefix"][6] > 0.2
