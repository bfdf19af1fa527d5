"""What others copy into their CI is valid, and calls the command line by options that it has."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from frontier_oracle.property_tests.cli.app import run

ROOT = Path(__file__).parents[2]
WORKFLOW = yaml.safe_load((ROOT / ".github" / "workflows" / "frontier-gate.yml").read_text(encoding="utf-8"))
CALL = WORKFLOW[True]["workflow_call"]  # YAML 1.1 reads "on" as true
DOCS = (ROOT / "docs" / "ci.md").read_text(encoding="utf-8")
SNIPPETS = [yaml.safe_load(text) for text in re.findall(r"```yaml\n(.*?)```", DOCS, re.DOTALL)]
STEPS: list[dict[str, Any]] = WORKFLOW["jobs"]["gate"]["steps"]
SYSTEM = "your_engine.adapter:make"


def commands(script: str, folder: Path, environment: dict[str, str]) -> list[list[str]]:
    """The arguments of every frontier-oracle that a script runs, a stub in its place."""
    stub = folder / "bin" / "frontier-oracle"
    stub.parent.mkdir(exist_ok=True)
    for program in (stub, stub.with_name("python")):
        program.write_text(f'#!/bin/sh\nfor word in "$(basename "$0")" "$@"; do echo "$word" >>{folder}/log; done\n')
        program.chmod(0o755)
    (folder / "log").write_text("")
    path = {"PATH": f"{stub.parent}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run(["bash", "-euo", "pipefail", "-c", script], env=environment | path, check=True, cwd=folder)
    out: list[list[str]] = []
    for word in (folder / "log").read_text().splitlines():
        if word in ("frontier-oracle", "python"):
            out.append([])
        out[-1].append(word)
    return [words[1:] for words in out if words[0] == "frontier-oracle"]


def assert_understood(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    verb, *rest = arguments
    assert run([verb, "--help"]) == 0
    known = capsys.readouterr().out
    assert all(word in known for word in rest if word.startswith("--")), rest


def test_the_workflow_runs_doctor_and_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = {"SYSTEM": SYSTEM, "PROFILE": "ci", "SEED": "7", "MUTANTS": "--no-mutants", "RUNNER_TEMP": str(tmp_path)}
    values |= {"PACKAGE": "frontier-oracle[torch]", "ENGINE": ".", "GITHUB_STEP_SUMMARY": str(tmp_path / "summary")}
    found = [c for step in STEPS if "run" in step for c in commands(step["run"], tmp_path, values)]
    assert [c[0] for c in found] == ["--version", "doctor", "gate"]
    for arguments in found[1:]:
        assert arguments[1:3] == ["--system", SYSTEM]
        assert_understood(arguments, capsys)
    assert f"junit={tmp_path}/frontier/gate.xml,json={tmp_path}/frontier/gate.json" in found[2]


def test_no_input_is_text_of_a_script() -> None:
    """Whoever may set an input must not be able to run a command."""
    assert all("${{" not in step["run"] for step in STEPS if "run" in step)


def test_every_input_is_documented_and_used() -> None:
    text = (ROOT / ".github" / "workflows" / "frontier-gate.yml").read_text(encoding="utf-8")
    documented = dict(re.findall(r"^\| `([a-z-]+)` \| .* \| (.*) \|$", DOCS, re.MULTILINE))
    assert set(documented) == set(CALL["inputs"])
    for name, given in CALL["inputs"].items():
        assert given["description"] and given["type"] in ("string", "number", "boolean")
        assert f"inputs.{name}" in text
        shown = "required" if given.get("required") else str(given["default"]).lower() or "nothing"
        assert documented[name].strip("`") == shown, name


def test_the_github_snippet_calls_the_workflow_with_inputs_that_it_has() -> None:
    job = SNIPPETS[0]["jobs"]["frontier-gate"]
    assert job["uses"].split("@")[0].endswith("/.github/workflows/frontier-gate.yml")
    assert set(job["with"]) <= set(CALL["inputs"])
    required = {name for name, given in CALL["inputs"].items() if given.get("required")}
    assert required <= set(job["with"])


def test_the_gitlab_snippet_calls_the_command_line_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = SNIPPETS[1]["frontier-gate"]
    found = commands("\n".join(job["script"]), tmp_path, {"SYSTEM": job["variables"]["SYSTEM"]})
    assert [c[0] for c in found] == ["doctor", "gate"]
    for arguments in found:
        assert_understood(arguments, capsys)
    assert f"junit={job['artifacts']['reports']['junit']}," in shlex.join(found[1])
