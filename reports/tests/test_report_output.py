"""What the report writes: a self-contained page, tables, plots, summaries, and canonical rounds that read back."""

from __future__ import annotations

import csv
import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.analysis.means import estimate
from frontier_oracle.reports.load import load
from frontier_oracle.reports.report import ReportResult, report, trace_names

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = ("vllm_chat_response_detailed.jsonl", "specbench_model_answer.jsonl", "tokenspeed_server.log")


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ReportResult:
    return report([FIXTURES / name for name in NAMES], tmp_path_factory.mktemp("report"), draft_cost=0.1)


class Page(HTMLParser):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id" and value]


def test_the_page_refers_to_nothing_outside_itself(result: ReportResult) -> None:
    text = result.html.read_text()
    page = Page(text)
    for tag, attributes in page.tags:
        assert tag not in ("link", "iframe", "object", "embed", "base", "img"), tag
        assert not attributes.get("src")
        for name in ("href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
        assert not any(name.startswith("on") for name in attributes)
    assert "@import" not in text and "url(" not in re.sub(r"url\(#", "", text)
    assert len([tag for tag, _ in page.tags if tag == "script"]) == 1


def test_ids_are_unique_and_links_lead_somewhere(result: ReportResult) -> None:
    page = Page(result.html.read_text())
    assert len(page.ids) == len(set(page.ids))
    for tag, attributes in page.tags:
        if tag in ("a", "use"):
            target = attributes.get("href") or attributes.get("xlink:href")
            assert target and target[1:] in page.ids


def test_headlines_carry_their_definition(result: ReportResult) -> None:
    text = result.html.read_text()
    assert "(accepted drafts + rounds) / rounds" in text and "2.857" in text and "2.429" in text
    assert "fewer than 5 requests" in text


def test_summary_json_has_no_nan_and_the_numbers(result: ReportResult) -> None:
    text = (result.html.parent / "summary.json").read_text()
    summary = json.loads(text, parse_constant=lambda name: pytest.fail(f"{name} in summary.json"))
    by_format = {entry["header"]["source_format"]: entry for entry in summary["inputs"]}
    assert by_format["vllm-response"]["headline"]["al_raw"]["value"] == pytest.approx(20 / 7)
    assert by_format["specbench"]["headline"]["al_raw"]["value"] is None
    assert len(by_format["specbench"]["header"]["source_file_sha256"]) == 64


def test_tables_are_written_as_csv_and_parquet_alike(result: ReportResult) -> None:
    folder = result.html.parent / "tables"
    for path in folder.glob("*.csv"):
        with path.open(newline="") as stream:
            rows = list(csv.reader(stream))
        table = pq.read_table(path.with_suffix(".parquet"))
        assert rows[0] == table.column_names and len(rows) - 1 == table.num_rows
    assert {path.stem for path in folder.glob("*.csv")} >= {
        "means",
        "positions",
        "distribution",
        "pitfalls",
        "overview",
    }


def test_plots_are_written_as_png_and_svg(result: ReportResult) -> None:
    folder = result.html.parent / "plots"
    assert {path.suffix for path in folder.iterdir()} == {".png", ".svg"}
    for path in folder.glob("*.png"):
        assert path.read_bytes()[:4] == b"\x89PNG" and path.with_suffix(".svg").read_text().startswith("<svg")


def test_markdown_summary(result: ReportResult) -> None:
    text = (result.html.parent / "summary.md").read_text()
    assert text.startswith("## Accept") and "| 2.857 |" in text


def test_the_canonical_rounds_are_readable_again(result: ReportResult) -> None:
    originals = {trace.header.source_format: trace for trace in load([FIXTURES / name for name in NAMES]).traces}
    seen = 0
    for path in (result.html.parent / "canonical").glob("*.rounds.parquet"):
        (trace,) = load([path]).traces
        origin = next(note for note in trace.header.notes if note.startswith("written from")).split()[-1]
        original = originals[origin]
        assert trace.header.truncation == original.header.truncation and not trace.problems.counts
        for name, values in original.rounds.items():
            assert trace.rounds[name].tolist() == values.tolist()
        for key in ("al_raw", "al_committed", "al_reported"):
            assert estimate(trace, key).value == estimate(original, key).value
        seen += 1
    assert seen == 2


def test_the_same_input_gives_the_same_page(result: ReportResult, tmp_path: Path) -> None:
    again = report([FIXTURES / name for name in NAMES], tmp_path, draft_cost=0.1)
    assert again.html.read_text() == result.html.read_text()


def test_strict_turns_defects_into_exit_code_2(tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_text((FIXTURES / "aiperf_record.json").read_text().replace("\n", "") + "\nbroken\n")
    assert report([source], tmp_path / "lax").exit_code == 0
    strict = report([source], tmp_path / "strict", strict=True)
    assert strict.exit_code == 2 and strict.html.exists() and "1 defects" in strict.message
    with (tmp_path / "strict" / "tables" / "problems.csv").open(newline="") as stream:
        assert any(row[2].endswith("in.jsonl:2") for row in csv.reader(stream))


def test_unrecognised_files_are_listed(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.json").write_text((FIXTURES / "aiperf_record.json").read_text())
    (folder / "b.bin").write_bytes(bytes(range(256)))
    done = report([folder], tmp_path / "out")
    assert done.exit_code == 0 and done.summary["unrecognised"] == [str(folder / "b.bin")]
    assert "b.bin" in done.html.read_text()
    assert "b.bin" in (tmp_path / "out" / "summary.md").read_text()
    assert report([folder], tmp_path / "out", strict=True).exit_code == 2


def test_a_report_beside_its_input_is_not_read_again(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text((FIXTURES / "vllm_chat_response_detailed.jsonl").read_text())
    first, second = (report([tmp_path], tmp_path / "out") for _ in range(2))
    assert len(second.summary["inputs"]) == len(first.summary["inputs"]) == 1
    assert "of an earlier report in the same place" in second.html.read_text()


def test_only_the_largest_inputs_get_a_section_and_all_get_a_row(tmp_path: Path) -> None:
    done = report([FIXTURES], tmp_path, max_sections=3)
    text = done.html.read_text()
    assert text.count('<section id="input-') == 3 and "Details are shown for the 3 inputs" in text
    assert len(done.summary["inputs"]) == 31


@pytest.mark.parametrize(
    ("paths", "options", "message"),
    [
        ([], {}, "no input"),
        (["/nowhere/at-all.jsonl"], {}, "cannot be read"),
        (["/nowhere/*.jsonl"], {}, "no file matches"),
        ([FIXTURES / "vllm_server.log"], {"draft_cost": -1.0}, "--draft-cost -1.0: expected"),
        ([FIXTURES / "vllm_server.log"], {"input_format": "x"}, "--input-format x: unknown"),
    ],
)  # fmt: skip
def test_bad_usage_is_one_line(paths: list[Path], options: dict[str, float], message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        report(paths, tmp_path / "out", **options)  # type: ignore[arg-type]
    assert message in str(caught.value) and "\n" not in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_an_output_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be made"):
        report([FIXTURES / "vllm_server.log"], tmp_path / "file" / "out")


def test_names_are_short_and_unique() -> None:
    traces = load([FIXTURES / "llamacpp_server.log", FIXTURES / "vllm_server.log"]).traces
    names = trace_names(traces)
    assert len(set(names)) == 4 and "vllm_server.log" in names and "llamacpp_server.log (llamacpp-log)" in names
