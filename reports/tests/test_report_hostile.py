"""Hostile input is escaped or refused with one line; nothing of it is executed or followed."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.analysis.run import analyse
from frontier_oracle.reports.load import load
from frontier_oracle.reports.readers import JSON_READERS, source
from frontier_oracle.reports.report import report

FIXTURES = Path(__file__).parent / "fixtures"
EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`|[a](javascript:b)\x00\x1b[31m‮"


def detailed(**changes: Any) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((FIXTURES / "vllm_chat_response_detailed.jsonl").read_text().splitlines()[0])
    return {**record, **changes}


def test_markup_in_ids_models_categories_and_file_names_is_escaped(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    name = "<img src=x onerror=alert(3)>.jsonl"
    (folder / name).write_text(json.dumps(detailed(id=EVIL, model=EVIL)) + "\n" + EVIL.replace("\x00", "") + "\n")
    rounds = [{"request_id": f"{EVIL}{n}", "round": 0, "al_raw": 1 + n % 3, "category": EVIL} for n in range(12)]
    (folder / "rounds.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rounds))
    (folder / "=cmd|calc").write_text("no format")
    done = report([folder], tmp_path / "out")
    text = done.html.read_text()
    assert "<script>alert" not in text and "<img" not in text
    assert text.count("<script>") == 1
    markdown = (tmp_path / "out" / "summary.md").read_text()
    assert "<img" not in markdown.replace("\\<img", "") and "](javascript" not in markdown
    for path in (tmp_path / "out" / "plots").glob("*.svg"):
        assert "<script" not in path.read_text() and "<img" not in path.read_text()


def test_spreadsheet_formulas_in_cells_are_quoted(tmp_path: Path) -> None:
    rows = [{"request_id": "r", "round": 0, "al_raw": 2, "category": "=HYPERLINK(1)"}]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    report([tmp_path / "r.jsonl"], tmp_path / "out")
    text = (tmp_path / "out" / "tables" / "category.csv").read_text()
    assert "'=HYPERLINK" in text and ",=HYPERLINK" not in text


def test_a_line_without_end_is_refused_in_bounded_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte on one line, as a sparse file: refused after the limit is read."""
    path = tmp_path / "long.jsonl"
    with path.open("wb") as stream:
        stream.write(b'{"a": "')
        stream.truncate(1 << 30)
    monkeypatch.setattr(source, "MAX_LINE", 1 << 20)
    with pytest.raises(UsageError, match="a line of more than 1 MB") as caught:
        load([path])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "nested", ["[" * 200_000, '{"a":' * 200_000, '{"metrics": ' + "[" * 100_000 + "]" * 100_000 + "}"]
)
def test_json_nested_without_end_is_a_broken_line(tmp_path: Path, nested: str) -> None:
    path = tmp_path / "deep.jsonl"
    path.write_text(json.dumps(detailed()) + "\n" + nested + "\n")
    (trace,) = load([path]).traces
    assert trace.problems.counts["broken line"] == 1 and trace.n_units == 1
    path.write_text(nested)
    with pytest.raises(UsageError, match="no known format"):
        load([path])


@pytest.mark.parametrize("suffix", ["gz", "zst"])
def test_a_decompression_bomb_is_refused(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MAX_DOCUMENT", 1 << 20)
    path = tmp_path / f"bomb.{suffix}"
    block = b"\n" * (1 << 20)
    if suffix == "gz":
        with gzip.open(path, "wb") as stream:
            for _ in range(64):
                stream.write(block)
    else:
        with pa.CompressedOutputStream(str(path), "zstd") as stream:
            for _ in range(64):
                stream.write(block)
    with pytest.raises(UsageError, match="decompresses to more than"):
        load([path])


@pytest.mark.parametrize("suffix", ["gz", "zst", "parquet"])
def test_damaged_files_are_one_line(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"x.{suffix}"
    if suffix == "gz":
        path.write_bytes(gzip.compress(b"{}\n" * 10_000)[:-20])
    elif suffix == "zst":
        path.write_bytes(source.ZSTD_MAGIC + b"garbage" * 10)
    else:
        path.write_bytes(b"PAR1" + b"\x00" * 100 + b"PAR1")
    with pytest.raises(UsageError, match="damaged|not a readable") as caught:
        load([path])
    assert "\n" not in str(caught.value)


def test_nan_infinity_and_huge_integers_are_null_and_counted(tmp_path: Path) -> None:
    spec = '{"num_spec_steps": NaN, "num_accepted_draft_tokens": Infinity, "num_draft_tokens": 1e400}'
    (tmp_path / "x.jsonl").write_text(f'{{"id": "a", "metrics": {{"speculative_decoding": {spec}}}}}\n{"9" * 5000}\n')
    (trace,) = load([tmp_path / "x.jsonl"]).traces
    assert (trace.known("verify_steps") != trace.known("verify_steps")).all()
    assert trace.problems.counts == {"broken line": 1, "unreadable value": 3}
    report([tmp_path / "x.jsonl"], tmp_path / "out")


def test_links_are_not_followed_in_directories(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret.jsonl").write_text(json.dumps(detailed()))
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "ok.jsonl").write_text(json.dumps(detailed()))
    (folder / "link.jsonl").symlink_to(outside / "secret.jsonl")
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    loaded = load([folder])
    assert sum(trace.n_units for trace in loaded.traces) == 1
    assert sorted(Path(name).name for name in loaded.skipped) == ["link.jsonl", "loop", "pipe"]


@pytest.mark.parametrize("special", ["/dev/zero", "/dev/null"])
def test_devices_are_refused(special: str) -> None:
    with pytest.raises(UsageError, match="not a regular file"):
        load([special])


WEIRD: list[Any] = [None, 0, -1, 1e308, "x", [], {}, [None], ["a"], {"a": None}, [[1]], [{}], True, 1 << 70, 10**400]
KEYS = [
    "metrics",
    "speculative_decoding",
    "num_spec_steps",
    "acceptance_histogram",
    "per_step_accepted",
    "meta_info",
    "choices",
    "spec_verify_ct",
    "sglext",
    "spec_tokens_details",
    "internal_states",
    "specDecodingStats",
    "numAcceptedTokens",
    "timings",
    "perf_metrics",
    "total_accepted_draft_tokens",
    "accept_lengths",
    "decoding_steps",
    "new_tokens",
    "idxs",
    "usage",
    "acceptance_lengths",
    "dflash",
    "cycles",
    "runs",
    "records",
    "predicted_n",
    "Request_AL",
    "Acceptance_Length_Histogram",
    "spec_decode_num_drafts",
    "spec_decode_per_position_acceptance_rates",
    "decoding_stats",
    "model",
    "accept_length",
    "acceptance_length_percentiles",
    "request_id",
    "round",
    "al_raw",
    "source_format",
    "schema_version",
    "k_draft",
    "notes",
    "mean_acceptance_length",
    "backend",
    "total_output_tokens",
    "spec_verify_count",
    "metrics_delta",
    "turn",
    "histogram",
]


def test_no_shape_of_json_makes_a_reader_fail(tmp_path: Path) -> None:
    """Ten thousand records of known keys with values of every wrong type."""
    import random

    rng = random.Random(5)
    known = []
    for path in sorted(FIXTURES.glob("*.json*")):
        text = path.read_text()
        try:
            known.append(json.loads(text))
        except ValueError:
            known += [json.loads(line) for line in text.splitlines()]

    def spoiled(value: Any, depth: int = 0) -> Any:
        if rng.random() < 0.08:
            return rng.choice(WEIRD)
        if isinstance(value, dict):
            return {key: spoiled(item, depth + 1) for key, item in value.items() if rng.random() > 0.03}
        if isinstance(value, list):
            return [spoiled(item, depth + 1) for item in value]
        return value

    def made(depth: int) -> Any:
        if depth == 0 or rng.random() < 0.3:
            return rng.choice(WEIRD)
        return {rng.choice(KEYS): made(depth - 1) for _ in range(rng.randrange(4))}

    records = [spoiled(rng.choice(known)) for _ in range(8000)]
    records += [{rng.choice(KEYS): made(3) for _ in range(rng.randrange(1, 5))} for _ in range(2000)]
    path = tmp_path / "mixed.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    loaded = load([path])
    assert len({trace.header.source_format for trace in loaded.traces}) > 12
    for trace in loaded.traces:
        analyse(trace, "x")
    for reader in JSON_READERS:
        for record in records[:500]:
            if isinstance(record, dict):
                assert reader().recognise(record) in (True, False)


def test_no_damage_to_a_log_makes_a_reader_fail(tmp_path: Path) -> None:
    import random

    rng = random.Random(6)
    texts = [path.read_bytes() for path in sorted(FIXTURES.iterdir()) if path.suffix in (".log", ".prom", ".txt")]
    broken = bytearray()
    for _ in range(300):
        text = bytearray(rng.choice(texts))
        for _ in range(rng.randrange(1, 12)):
            at = rng.randrange(len(text))
            spoil = bytes(rng.choice(b"0123456789.,:{}[]() nan\xff\x00-") for _ in range(rng.randrange(3)))
            text[at : at + rng.randrange(3)] = spoil
        broken += text + b"\n"
    (tmp_path / "broken.log").write_bytes(bytes(broken))
    traces = load([tmp_path / "broken.log"]).traces
    assert traces
    for trace in traces:
        analyse(trace, "x")


def test_parquet_of_other_columns_or_types_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table({"a": [1]}), path)
    with pytest.raises(UsageError, match="no canonical rounds"):
        load([path])
    pq.write_table(pa.table({"request_id": ["a"], "al_raw": ["two"], "turn": ["x"]}), path)
    (trace,) = load([path]).traces
    assert trace.problems.counts["unreadable value"] >= 2
    pq.write_table(pa.table({"request_id": pa.array([], pa.string()), "al_raw": pa.array([], pa.int32())}), path)
    (trace,) = load([path]).traces
    assert trace.n_units == 0
    report([path], tmp_path / "out")


def test_empty_and_binary_files(tmp_path: Path) -> None:
    for name, data in (("empty", b""), ("zeros", b"\x00" * 1000), ("text", "naïve\n".encode("utf-16"))):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(UsageError, match="no known format"):
            load([tmp_path / name])


def test_names_and_texts_that_are_no_unicode_are_shown_with_a_question_mark(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    record = json.dumps(detailed(id="half")).replace("half", "\\ud800half")
    Path(os.fsdecode(os.fsencode(folder) + b"/\xff.jsonl")).write_text(record)
    Path(os.fsdecode(os.fsencode(folder) + b"/\xfe.txt")).write_text("no format")
    done = report([folder], tmp_path / "out")
    assert [Path(name).name for name in done.summary["unrecognised"]] == ["?.txt"]
    (trace,) = load([folder]).traces
    assert trace.request_id == ["?half"] and trace.place(0)[0].endswith("?.jsonl")


@pytest.mark.parametrize("name", ["0" * 9 + "9" * 10, "9" * 5000, "4097"])
def test_a_histogram_of_any_number_of_drafts_is_refused(name: str, tmp_path: Path) -> None:
    record = {"mean_acceptance_length": 2.0, "acceptance_histogram": {"1": 2, name: 1}, "num_spec_steps": 3}
    (tmp_path / "r.json").write_text(json.dumps(record))
    (trace,) = load([tmp_path / "r.json"]).traces
    assert trace.histograms is None and trace.problems.counts == {"unreadable value": 1}
