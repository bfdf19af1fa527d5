"""Every way in which a system's name can be wrong gives one clear line."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.timeline import Timeline
from frontier_oracle.property_tests.registry import DEFAULT, LIGHT, HardwareMissing, load_system
from frontier_oracle.property_tests.shield import device_of, placed_config, shielded

MODULES = {
    "good_adapter": "def make(config, model):\n    return 'built'\nclass Drafter:\n    make = make\nlimit = 3\n"
    "def on_gpu(config, model):\n    return 'built'\non_gpu.device = 'cuda'\n",
    "needs_engine": "import an_engine_that_is_not_here\n",
    "fails_early": "raise RuntimeError('no\\ndriver')\n",
    "leaves": "raise SystemExit(3)\n",
}


@pytest.fixture
def adapters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in MODULES.items():
        (tmp_path / f"{name}.py").write_text(text)
    monkeypatch.setattr(sys, "path", [p for p in sys.path if p])
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", DEFAULT)
def test_built_in(name: str) -> None:
    assert callable(load_system(name))


def test_a_system_that_needs_a_gpu_says_so_and_is_no_default(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "cuda_graph" not in DEFAULT and set(LIGHT) < {*DEFAULT, "cuda_graph"}
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(HardwareMissing, match="cuda_graph needs a CUDA device"):
        load_system("cuda_graph")


@pytest.mark.usefixtures("adapters")
def test_an_adapter_in_the_current_directory() -> None:
    assert load_system("good_adapter:make")(None, None) == "built"  # type: ignore[arg-type]
    assert callable(load_system("good_adapter:Drafter.make"))


@pytest.mark.usefixtures("adapters")
def test_an_adapter_says_that_it_runs_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(HardwareMissing, match="^good_adapter:on_gpu needs a CUDA device, and torch sees none$"):
        load_system("good_adapter:on_gpu")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    config = Timeline(parse("k2 | a: p1")).config()
    for name, device in (("good_adapter:on_gpu", "cuda"), ("cuda_graph", "cuda"), ("good_adapter:make", "cpu")):
        factory = shielded(load_system(name))
        assert (device_of(factory), placed_config(factory, config).device) == (device, device)


@pytest.mark.usefixtures("adapters")
@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("fronteer", "unknown system 'fronteer' (did you mean 'frontier'?): known are frontier, tokenspeed_frontier, "),
        (
            "fronteer",
            "tokenspeed_eagle, sglang, vllm; name an adapter of your own as pkg.mod:make",
        ),
        ("zzz", "unknown system 'zzz': known are frontier"),
        ("", "unknown system ''"),
        ("adapter.py:make", "expected pkg.mod:make, a module's dotted name"),
        ("some/adapter:make", "expected pkg.mod:make"),
        (":make", "expected pkg.mod:make"),
        ("good_adapter:", "expected pkg.mod:make"),
        ("..adapter:make", "expected pkg.mod:make"),
        ("nowhere.mod:make", "no module named 'nowhere' for system nowhere.mod"),
        ("good_adapter.inner:make", "no module named 'good_adapter.inner'"),
        ("needs_engine:make", "it needs the module 'an_engine_that_is_not_here', which is not installed"),
        ("fails_early:make", "importing fails_early failed: RuntimeError: no driver"),
        ("leaves:make", "importing leaves failed: SystemExit: 3"),
        ("good_adapter:mak", "good_adapter has no 'mak'; it has make"),
        ("good_adapter:make.inner", "good_adapter has no 'make.inner'"),
        ("good_adapter:limit", "limit is of type int, expected a callable make(config, model)"),
    ],
)
def test_wrong_names(name: str, says: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_system(name)
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
