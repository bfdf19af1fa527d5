"""What the writers make of hand-made reports: the texts whole, the machine formats by their fields."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from textwrap import dedent
from xml.etree import ElementTree

from gate_reports import DECLARED, FAILURE, GREEN, NOTHING, RED

from frontier_oracle.oracle import records
from frontier_oracle.property_tests.gate.results import CheckResult, GateReport, SystemResult
from frontier_oracle.property_tests.render import annotations, jsonout, junit, markdown, record, table


def test_the_table_of_a_green_run() -> None:
    assert table.render(GREEN) == dedent(
        """\
        frontier-oracle 0.1.0 · profile ci · seed 3 · python 3.11.7 · torch 2.13.0 · numpy 2.4.6 · Linux x86_64, 2 cores · commit abc1234

         system                check        cases   request-rounds   findings   declared   seconds   result
         ───────────────────────────────────────────────────────────────────────────────────────────────────
         frontier              random       1,100           12,345          0          0      12.3   ok
                               traces k=4      10              320          0          0       1.0   ok
                               gpu              0                0          0          0       0.0   skipped
         tokenspeed_frontier   known           23              140          0          1       3.2   ok

        planted faults: 2 of 2 killed by the rule that names them
        declared deviations:
          seen      tokenspeed_frontier: mid_chunk_tail (the last rows read drafts)
          NOT SEEN  tokenspeed_frontier: short_prompt (positions clamp to 0)
        note: frontier, traces k=4: 7 of 320 rounds clipped to k=4
        skipped: frontier, gpu: no CUDA device

        Equal: frontier kept its books. Not proven: attention and rotary numerics, samplers, quantised KV."""  # noqa: E501
    )


def test_the_table_of_a_red_run_tells_each_failure() -> None:
    assert table.render(RED) == dedent(
        """\
        frontier-oracle 0.1.0 · profile ci · seed 3 · python 3.11.7 · torch 2.13.0 · numpy 2.4.6 · Linux x86_64, 2 cores · commit abc1234

         system   check   cases   request-rounds   findings   declared   seconds   result
         ────────────────────────────────────────────────────────────────────────────────
         mine     known      23              140          2          0       3.0   FAILED

        planted faults: 1 of 2 killed by the rule that names them
          SURVIVED  stash_not_rolled on frontier: expected FO206, got nothing

        mine, known:
        FO101 wrong token (S1 S5 S7 S12 S13)
          where     round 1 (decode of a, accept 1, frontier 9 to 10), request a, depth 0, position 6
          scenario  k4 page4 | a: p9 | a1
          because   what it got is that of position 8, not 7: off by +1
          replay    frontier-oracle replay --system mine 'k4 page4 | a: p9 | a1'
          found on  k4 page4 | a: p9 | a1, a3, a2

        mine, known:
        FO204 foreign write (S19)
          because   only in a batch: <&>

        Divergence: mine diverged from the oracle; 1 of 2 planted faults were not killed by their own code."""  # noqa: E501
    )


def test_a_terminal_gets_colors_and_a_long_name_is_not_cut() -> None:
    assert "\x1b[" in table.render(GREEN, color=True) and "\x1b[" not in table.render(GREEN)
    long = replace(GREEN.systems[0], name="some_engine.speculative.adapters.frontier_oracle:make")
    told = table.render(replace(GREEN, systems=(long,)))
    assert "…" not in told


def test_of_many_failures_the_first_are_told_and_the_rest_counted() -> None:
    failures = tuple(replace(FAILURE, scenario=f"k4 page4 | a: p{n} | a1") for n in range(1, 9))
    check = CheckResult("known", "known", 1, 1, findings=failures)
    told = table.render(replace(RED, systems=(SystemResult("mine", (check,)),)))
    assert told.count("FO101 wrong token") == table.MOST_STORIES
    assert "... and 3 more" in told


def test_a_failure_that_several_checks_met_is_told_once() -> None:
    checks = tuple(CheckResult(id_, "known", 1, 1, findings=(FAILURE, FAILURE)) for id_ in ("known", "random"))
    told = table.render(replace(RED, systems=(SystemResult("mine", checks),)))
    assert told.count("FO101 wrong token") == 1
    assert "\nmine, known, random:\nFO101 wrong token" in told


def test_nothing_ran_is_said() -> None:
    assert table.render(NOTHING).endswith("Nothing ran.")
    assert ElementTree.fromstring(junit.render(NOTHING).encode()).get("tests") == "0"


def test_json_has_what_programs_read() -> None:
    data = json.loads(jsonout.render(RED))
    assert (data["verdict"], data["seed"], data["profile"]) == ("divergence", 3, "ci")
    check = data["systems"][0]["checks"][0]
    assert {"id", "kind", "cases", "request_rounds", "findings", "seconds"} <= check.keys()
    assert [(f["code"], f["declared"]) for f in check["findings"]] == [("FO101", False), ("FO204", False)]
    assert data["mutants"]["total"] == 2 and data["mutants"]["killed"] == 1
    assert data["mutants"]["survivors"] == [
        {"id": "stash_not_rolled", "base": "frontier", "expected": "FO206", "got": ""}
    ]
    seen = json.loads(jsonout.render(GREEN))["declared_deviations"]
    assert [(d["id"], d["system"], d["seen"]) for d in seen] == [
        ("mid_chunk_tail", "tokenspeed_frontier", True),
        ("short_prompt", "tokenspeed_frontier", False),
    ]


def test_junit_has_a_case_per_check_and_per_planted_fault() -> None:
    root = ElementTree.fromstring(junit.render(GREEN).encode())
    assert [suite.get("name") for suite in root] == ["frontier", "tokenspeed_frontier", "planted faults"]
    assert (root.get("tests"), root.get("failures"), root.get("skipped")) == ("6", "0", "1")
    skipped = root.find(".//testcase[@name='gpu']/skipped")
    assert skipped is not None and skipped.get("message") == "no CUDA device"
    out = root.findtext(".//testcase[@name='traces k=4']/system-out")
    assert out == "10 cases, 320 request-rounds\n7 of 320 rounds clipped to k=4"


def test_junit_tells_failures_and_survivors_and_is_valid_xml_whatever_they_say() -> None:
    control = replace(FAILURE, story=("bell \x07 and \x00", "<&>"))
    check = CheckResult("known", "known", 1, 1, findings=(control, DECLARED))
    report = replace(RED, systems=(SystemResult("mine", (check,)),))
    root = ElementTree.fromstring(junit.render(report).encode())
    assert (root.get("tests"), root.get("failures")) == ("3", "2")
    failure = root.find(".//failure[@type='FO101']")
    assert failure is not None and failure.text is not None
    assert failure.text.startswith("bell ? and ?\n<&>"), "declared findings are no failures"
    survivor = root.find(".//testcase[@name='stash_not_rolled']/failure")
    assert survivor is not None and survivor.get("message") == "expected FO206, it survived"


def test_markdown_is_a_table_with_the_stories_in_code_blocks() -> None:
    text = markdown.render(RED)
    assert text.startswith("## frontier-oracle gate: divergence\n\nDivergence: mine diverged")
    assert "| mine | known | 23 | 140 | 2 | 0 | 3.0 | FAILED |" in text
    assert "- **survived**: stash\\_not\\_rolled on frontier (expected FO206, got nothing)" in text
    assert "```text\nmine, known:\nFO101 wrong token" in text
    assert "| short\\_prompt: positions clamp to 0 | tokenspeed\\_frontier | **no** |" in markdown.render(GREEN)


def test_markdown_cells_and_fences_cannot_be_broken_out_of() -> None:
    check = CheckResult("a|b <i>", "known", 1, 1, findings=(replace(FAILURE, story=("```", "x")),), skipped="")
    text = markdown.render(replace(RED, systems=(SystemResult("mine", (check,)),)))
    assert "| mine | a\\|b &lt;i> | 1 |" in text
    assert "\n````text\n" in text


def test_annotations_escape_what_would_end_a_command() -> None:
    lines = annotations.render(RED).splitlines()
    assert len(lines) == 3 and all(line.startswith("::error title=") for line in lines)
    assert lines[0].startswith(
        "::error title=FO101 wrong token (mine%2C known)::FO101 wrong token (S1 S5 S7 S12 S13)%0A"
    )
    assert (
        lines[2] == "::error title=planted fault survived%3A stash_not_rolled on frontier::expected FO206, got nothing"
    )
    assert annotations.render(GREEN).startswith("::warning title=declared deviation not seen%3A short_prompt")
    assert annotations.render(NOTHING) == ""


def test_the_record_is_the_same_whatever_the_machine_and_the_time(tmp_path: Path) -> None:
    def rerun(report: GateReport) -> GateReport:
        slower = tuple(
            replace(s, checks=tuple(replace(c, seconds=c.seconds * 2) for c in s.checks)) for s in report.systems
        )
        return replace(report, systems=slower, seconds=99.0, environment={**report.environment, "cores": "64"})

    for report in (GREEN, RED):
        first, again = record.lines(report), record.lines(rerun(report))
        assert records.comparable(first) == records.comparable(again)
        assert first != again
        records.write(tmp_path / "run.jsonl", first)
        assert records.read(tmp_path / "run.jsonl") == first
    kinds = [line["type"] for line in record.lines(RED)]
    assert kinds == ["header", "check", "finding", "finding", "mutant", "mutant", "verdict", "timing"]
