"""Weights in files: safetensors shards whose metadata hold the configuration and a digest of the tensors."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reference_impl.model import smollm2
from frontier_oracle.reference_impl.model.config import EOS, ModelConfig
from frontier_oracle.reference_impl.model.layers import init_weights
from frontier_oracle.reference_impl.model.mtp import MTPChain
from frontier_oracle.reference_impl.model.target import Target

BUNDLED = Path(__file__).parent / "bundled"
FORMAT = "frontier-oracle-model/1"
SHARDS = "model-*.safetensors"
SHARD_BYTES = 15 * 2**20


class WeightsError(UsageError):
    """A weights folder that is missing, broken, incomplete or of another kind."""


@dataclass(frozen=True)
class Model:
    """A target and the chain that drafts for it, without gradients."""

    config: ModelConfig
    target: Target
    chain: MTPChain

    def parts(self) -> dict[str, torch.nn.Module]:
        return {"target": self.target, "chain": self.chain}

    @property
    def eos(self) -> int:
        """The token that ends a text."""
        return smollm2.END_OF_TEXT if self.config.pretrained else EOS

    def encode(self, text: bytes) -> list[int]:
        """Its tokens, without any that begins or ends a text."""
        return smollm2.encode([text])[0].tolist()[1:] if self.config.pretrained else list(text)

    def trained(self) -> dict[str, torch.nn.Module]:
        """The parts that this project trains and saves: a pretrained target is not among them."""
        return {"chain": self.chain} if self.config.pretrained else self.parts()

    def tensors(self) -> dict[str, Tensor]:
        """Their weights by name, ``target.…`` and ``chain.…``."""
        parts = self.trained().items()
        return {f"{part}.{name}": tensor for part, module in parts for name, tensor in module.state_dict().items()}


def random_model(config: ModelConfig, seed: int = 0, dtype: str = "float32", device: str = "cpu") -> Model:
    """An untrained model; every matrix follows from the seed, but for a pretrained target's."""
    model = Model(config, _target(config), MTPChain(config))
    for number, module in enumerate(model.trained().values()):
        init_weights(module, 2 * seed + number)
    if config.pretrained:  # its head reads what its own norm scales
        model.chain.norm.load_state_dict(model.target.norm.state_dict())
    return _ready(model, dtype, device)


def load(path: str | Path | None = None, dtype: str = "float32", device: str = "cpu") -> Model:
    """The model in folder ``path``, or the bundled one. Raises WeightsError, one line that names the file."""
    folder = BUNDLED if path is None else Path(path)
    files = sorted(folder.glob(SHARDS))
    if not files:
        raise WeightsError(f"{folder}: no {SHARDS} there; expected a folder that 'frontier-oracle train' wrote")
    config, tensors, numbers, wholes = None, dict[str, Tensor](), set[str](), set[str | None]()
    for file in files:
        metadata, part = _read(file)
        try:
            read = ModelConfig.from_json(metadata["config"])
        except (KeyError, TypeError, ValueError, ZeroDivisionError) as error:
            raise WeightsError(f"{file}: no usable model configuration in its metadata ({error})") from None
        if config not in (None, read):
            raise WeightsError(f"{file}: its configuration differs from {files[0].name}'s: shards of two models")
        config = read
        wholes.add(metadata.get("model_sha256"))  # the bundled shards are older than it
        if len(wholes) > 1:
            raise WeightsError(f"{file}: another model's than {files[0].name}, of the same shape: shards of two models")
        tensors |= part
        numbers.add(metadata.get("shard", "without a number"))
    wanted = {f"{i + 1}/{len(files)}" for i in range(len(files))}
    if config is None or numbers != wanted:
        raise WeightsError(f"{folder}: holds shards {', '.join(sorted(numbers))}; expected {', '.join(sorted(wanted))}")
    return _fill(Model(config, _target(config), MTPChain(config)), tensors, folder, dtype, device)


def save(model: Model, folder: str | Path, dtype: str = "bfloat16") -> list[Path]:
    """Write shards of less than 16 MiB, in ``dtype``, in place of what weights the folder held. Returns their paths."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob(SHARDS):
        old.unlink()
    kind = getattr(torch, dtype)
    shards = _shards((name, t.detach().to("cpu", kind).contiguous()) for name, t in model.tensors().items())
    whole = _digest({name: tensor for shard in shards for name, tensor in shard.items()})
    paths = []
    for i, shard in enumerate(shards):
        path = folder / f"model-{i + 1}-of-{len(shards)}.safetensors"
        metadata = {"format": FORMAT, "config": model.config.to_json(), "shard": f"{i + 1}/{len(shards)}"}
        save_file(shard, path, metadata | {"sha256": _digest(shard), "model_sha256": whole})
        paths.append(path)
    return paths


def _read(file: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    try:
        with safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
            tensors = {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118 (no mapping)
    except (SafetensorError, OSError) as error:
        raise WeightsError(f"{file}: not a readable safetensors file ({error})") from None
    if metadata.get("format") != FORMAT:
        raise WeightsError(f"{file}: format {metadata.get('format')!r}; expected {FORMAT!r}, as 'train' writes it")
    if metadata.get("sha256") != _digest(tensors):
        raise WeightsError(f"{file}: corrupt, the tensors differ from the digest in its metadata; fetch it again")
    return metadata, tensors


def _target(config: ModelConfig) -> Target:
    """Without weights, but for a pretrained one."""
    if not config.pretrained:
        return Target(config)
    if config.pretrained != smollm2.NAME:
        raise UsageError(f"model: pretrained target {config.pretrained!r} is not known; expected {smollm2.NAME!r}")
    return smollm2.load_target()


def _fill(model: Model, tensors: dict[str, Tensor], folder: Path, dtype: str, device: str) -> Model:
    for part, module in model.trained().items():
        own = {name.removeprefix(f"{part}."): t for name, t in tensors.items() if name.startswith(f"{part}.")}
        try:
            module.load_state_dict(own)
        except RuntimeError as error:
            raise WeightsError(
                f"{folder}: tensors do not fit the configuration: {' '.join(str(error).split())}"
            ) from None
    return _ready(model, dtype, device)


def _ready(model: Model, dtype: str, device: str) -> Model:
    for module in model.parts().values():
        module.to(device, getattr(torch, dtype)).requires_grad_(False).eval()
    return model


def _shards(named: Iterable[tuple[str, Tensor]]) -> list[dict[str, Tensor]]:
    """In order, as many tensors a shard as fit."""
    shards: list[dict[str, Tensor]] = []
    room = 0
    for name, tensor in named:
        if tensor.nbytes > room:
            shards.append({})
            room = SHARD_BYTES
        shards[-1][name] = tensor
        room -= tensor.nbytes
    return shards


def _digest(tensors: dict[str, Tensor]) -> str:
    """sha256 over names and bytes, names in order."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        digest.update(name.encode())
        digest.update(tensors[name].contiguous().flatten().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
