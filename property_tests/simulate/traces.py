"""What was served, as a canonical trace: JSON lines (a header, a line per request and per verify round) or Parquet."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.property_tests.gate.environment import version
from frontier_oracle.property_tests.simulate.drafters import TARGET
from frontier_oracle.property_tests.simulate.run import DesignRun, Simulation
from frontier_oracle.reports.canonical import SCHEMA_VERSION

ENDINGS = (".jsonl", ".parquet")


def write(simulation: Simulation, path: Path) -> list[Path]:
    """One file a design that drafts, ``path`` with the design's name before its ending (.jsonl or .parquet). Returns
    the paths. Raises UsageError for another ending, a folder that is not there, or Parquet without pyarrow."""
    check(path)
    written = []
    for run in simulation.runs:
        if run.name == TARGET:
            continue
        name = run.name.replace(":", "-")
        file = path.with_name(f"{path.stem}.{name}{path.suffix}")
        try:
            _parquet(simulation, run, file) if path.suffix == ".parquet" else _jsonl(simulation, run, file)
        except OSError as error:
            raise UsageError(f"--trace {file}: cannot be written ({error.strerror or error})") from None
        written.append(file)
    return written


def check(path: Path) -> None:
    """Raise UsageError for what ``write`` could not write to, before anything is served."""
    if path.suffix not in ENDINGS:
        raise UsageError(f"--trace {path}: expected a name that ends in {' or '.join(ENDINGS)}")
    if not path.parent.is_dir():
        raise UsageError(f"--trace {path}: no directory {path.parent}")
    if path.suffix == ".parquet" and importlib.util.find_spec("pyarrow") is None:
        raise UsageError("--trace with Parquet needs pyarrow: pip install 'frontier-oracle[reports]', or name a .jsonl")


def header(simulation: Simulation, run: DesignRun) -> dict[str, Any]:
    o = simulation.options
    sampled = f"temperature {o.sampling.temperature}, top-p {o.sampling.top_p}, seed {o.sampling.seed}"
    how = "greedy" if o.sampling.temperature == 0 else sampled
    return {
        "schema_version": SCHEMA_VERSION,
        "source_format": "frontier-oracle-simulate",
        "source_engine": "frontier-oracle",
        "source_version": version(),
        "method": f"mtp, {run.name}",
        "k_verify_width": o.k,
        "k_draft": o.k - 1,
        "tree": False,
        "bonus_included": True,
        "order_known": "rounds",
        "truncation": "both",
        "counterfactual": False,
        "synthetic_acceptance": "no",
        "lossy": False,
        "notes": [f"{o.dtype} on {o.device}, batch {o.batch}, {how}"],
    }


def rounds(run: DesignRun) -> Iterator[dict[str, Any]]:
    """A row per verify round, in the canonical columns, with the drafts by depth."""
    for request in run.requests:
        prompt = len(request.prompt.tokens)
        for number, v in enumerate(request.rounds):
            yield {
                "request_id": request.prompt.name,
                "turn": request.prompt.turn,
                "round": number,
                "drafted": len(v.drafts),
                "accepted_drafts": v.accept - 1,
                "al_raw": v.accept,
                "al_committed": v.committed,
                "out_pos": v.frontier + 1 - prompt,
                "ctx_len": v.frontier + 1,
                "cap": len(v.drafts) + 1,
                "is_warmup": False,
                "truncated": v.committed < v.accept,
                "batch_size": v.batch_size,
                "category": request.prompt.category,
                "drafts": list(v.drafts),
            }


def requests(run: DesignRun) -> Iterator[dict[str, Any]]:
    for request in run.requests:
        yield {
            "request_id": request.prompt.name,
            "turn": request.prompt.turn,
            "category": request.prompt.category,
            "prompt_tokens": len(request.prompt.tokens),
            "completion_tokens": len(request.output),
            "finish_reason": request.finish,
            "prefill_token_in_rounds": False,
            "verify_steps": len(request.rounds),
            "accepted_total": sum(v.accept - 1 for v in request.rounds),
            "drafted_total": sum(len(v.drafts) for v in request.rounds),
        }


def _jsonl(simulation: Simulation, run: DesignRun, file: Path) -> None:
    rows = (header(simulation, run), *requests(run), *rounds(run))
    file.write_text("".join(json.dumps(row, allow_nan=False) + "\n" for row in rows), encoding="utf-8")


def _parquet(simulation: Simulation, run: DesignRun, file: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    from frontier_oracle.reports.readers.canonical_arrow import HEADER_KEY

    table = pa.Table.from_pylist(list(rounds(run)))
    pq.write_table(table.replace_schema_metadata({HEADER_KEY: json.dumps(header(simulation, run))}), file)
