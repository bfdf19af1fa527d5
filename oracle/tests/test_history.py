"""Tier 0: a log is judged as the run that it was written of; what it lacks is skipped and counted; dirt has a line."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from frontier_oracle.oracle.designs import DESIGNS, Design
from frontier_oracle.oracle.errors import RecordError
from frontier_oracle.oracle.executor import DesignDrafter, spec_for
from frontier_oracle.oracle.explain import explain
from frontier_oracle.oracle.history.check import Checked, check
from frontier_oracle.oracle.history.record import Recorder
from frontier_oracle.oracle.history.schema import BY_REQUEST, BY_ROW, read
from frontier_oracle.oracle.language import parse
from frontier_oracle.oracle.play import play
from frontier_oracle.oracle.timeline import Timeline

Json = dict[str, Any]

PLAIN = (
    "k4 page16 | a: p12 chunks 5,5,2 | a1 | a4, a2",
    "k4 page16 | a: p20 chunks 18,1,1 | a1, a4, a1",
    "k4 page4 | a: p1 | a1, a4, a1",
    "k4 page4 | a: p4 | b: p5 | c: p6 | a4 b1 c3, c1 a2 /4 | end b | d: p4 | d2 a1 c1",
    "k4 page4w8,16 | a: p6 | a4, a4, a4, a4, a4, a4, a1, a1",
    "k4 steps1 page4 | a: p5 chunks 3,2 | a2, a1, a2",
    "k5 target page4 | a: p9 chunks 4,4,1 | a1, a5, a2",
    "k4 page4 | a: p6 | b: p5 | a3 b1 | preempt a | b2 | a: resume | a1 b3, b1 a4",
)
HITS = (
    "k4 page4 | a: p12 | z: p12 | end z | b: p9 hit a 8 | b1, b1, b2",
    "k4 page4 | a: p16 | b: p14 hit a 12 chunks 1,1 | b1, b2 a3",
)
# What no log shows, since it compares values in the cache.
VALUES = {"FO207", "FO208", "FO209"}
CALL_FIELDS = (*BY_ROW, *BY_REQUEST, "locations", "page_table", "masked")
ROW_FIELDS = ("verified", "target_hidden", "page_table", "returned", "stash", "sampled")


def recorded(design: Design, text: str) -> tuple[list[Json], set[tuple[str, int, str, int, int]]]:
    """The lines of a design's run, as plain data, and what the run itself was found to do."""
    scenario = parse(text)
    timeline = Timeline(replace(scenario, spec=spec_for(design, scenario.spec)), design.prefix_policy)
    recorder = Recorder(DesignDrafter(design, timeline.config()), timeline.spec, design.name)
    found = {f.key for _, _, verdict in play(timeline, recorder) for f in verdict.findings}
    return [json.loads(line) for line in recorder.text().splitlines()], found


def checked(lines: list[Json], folder: Path) -> Checked:
    path = folder / "history.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    history, dirty = read(path)
    assert history is not None, dirty
    return check(history)


def without(lines: list[Json], call_fields: set[str], row_fields: set[str]) -> list[Json]:
    """The same log with fewer fields."""
    thin = copy.deepcopy(lines)
    for line in thin:
        for holders, fields in ((line.get("calls", []), call_fields), (line.get("rows", []), row_fields)):
            for holder in holders:
                for name in fields:
                    holder.pop(name, None)
    return thin


@pytest.mark.parametrize("design", DESIGNS.values(), ids=list(DESIGNS))
def test_a_log_shows_what_the_run_showed(design: Design, tmp_path: Path) -> None:
    for text in PLAIN:
        lines, found = recorded(design, text)
        assert {f.key for f in checked(lines, tmp_path).findings} == {key for key in found if key[0] not in VALUES}


def test_designs_without_deviations_stay_clean_after_hits_and_those_with_them_do_not(tmp_path: Path) -> None:
    for text in HITS:
        assert checked(recorded(DESIGNS["frontier"], text)[0], tmp_path).findings == []
        assert checked(recorded(DESIGNS["minimal"], text)[0], tmp_path).findings == []
        assert checked(recorded(DESIGNS["tokenspeed_frontier"], text)[0], tmp_path).findings != []


@pytest.mark.parametrize("design", ["frontier", "minimal"])
@pytest.mark.parametrize("text", [*PLAIN, *HITS])
def test_whatever_is_left_out_a_right_log_stays_clean(design: str, text: str, tmp_path: Path) -> None:
    lines, _ = recorded(DESIGNS[design], text)
    draw = random.Random(f"{design} {text}")
    thin: list[tuple[set[str], set[str]]] = []
    if design == "frontier":
        thin = [*(({name}, set[str]()) for name in CALL_FIELDS), *((set[str](), {name}) for name in ROW_FIELDS)]
    for _ in range(5):
        calls = {name for name in CALL_FIELDS if draw.random() < 0.5}
        thin.append((calls, {name for name in ROW_FIELDS if draw.random() < 0.5}))
    for calls, rows in thin:
        assert checked(without(lines, calls, rows), tmp_path).findings == [], (calls, rows)


def test_prompts_that_were_not_logged_are_unknown_not_wrong(tmp_path: Path) -> None:
    lines, _ = recorded(DESIGNS["tokenspeed_frontier"], PLAIN[0])
    whole = checked(lines, tmp_path)
    for line in lines:
        if line.get("event") == "admit":
            line["prompt_len"] = len(line.pop("prompt"))
    some = checked(lines, tmp_path)
    before, after = (next(r for r in c.rules if r.code == "FO101") for c in (whole, some))
    assert before.unknown == 0 < after.unknown
    assert before.judged == after.judged + after.unknown
    assert len(before.findings) > len(after.findings)


NEEDED = {
    "FO101": "input_ids",
    "FO102": "hidden",
    "FO103": "positions",
    "FO104": "locations",
    "FO105": "sample_rows",
    "FO107": "seq_lens",
    "FO108": "sampled",
    "FO201": "input_ids",
}


@pytest.mark.parametrize("code, name", NEEDED.items())
def test_a_rule_whose_field_is_missing_is_skipped_with_the_reason(code: str, name: str, tmp_path: Path) -> None:
    lines, _ = recorded(DESIGNS["tokenspeed_frontier"], PLAIN[0])
    rule = next(r for r in checked(without(lines, {name}, set()), tmp_path).rules if r.code == code)
    assert rule.skipped == f"not logged: {name}"
    assert (rule.judged, rule.findings) == (0, ())


def test_a_log_of_results_alone_judges_results_alone(tmp_path: Path) -> None:
    lines, _ = recorded(DESIGNS["frontier"], PLAIN[3])
    for line in lines:
        line.pop("calls", None)
    rules = checked(lines, tmp_path).rules
    assert [r.code for r in rules if not r.skipped] == ["FO106", "FO206"]


def _change(path: str, index: int, by: int = 1) -> Callable[[Json], None]:
    """Add to a value of the round: "calls.1.positions", "rows.0.returned"."""

    def change(line: Json) -> None:
        at: Any = line
        for part in path.split("."):
            at = at[int(part) if part.isdigit() else part]
        at[index] += by

    return change


def _garbage(line: Json) -> None:
    line["calls"][0]["input_ids"][3] = line["rows"][0]["verified"][1]


FAULTS = {
    "FO101": _change("calls.1.input_ids", 1),
    "FO102": _change("calls.1.hidden", 1),
    "FO103": _change("calls.1.positions", 1),
    "FO104": _change("calls.1.locations.0", 1),
    "FO105": _change("calls.1.sample_rows", 0, -1),
    "FO106": _change("rows.0.returned", 0),
    "FO107": _change("calls.1.seq_lens", 0),
    "FO108": _change("rows.0.returned", 2),
    "FO203": _garbage,
    "FO204": _change("calls.1.slots", 0),
    "FO205": _change("calls.1.slots", 1),
    "FO206": _change("rows.0.stash.tokens", 0),
}


@pytest.mark.parametrize("code", FAULTS)
def test_one_wrong_value_is_found_by_the_rule_that_names_it(code: str, tmp_path: Path) -> None:
    lines, _ = recorded(DESIGNS["frontier"], "k4 page4 | a: p9 | a1 /2, a2 /2")
    decodes = [line for line in lines if line.get("event") == "decode"]
    for line in decodes:  # the executor leaves padded rows out of its calls
        for call in line["calls"]:
            _pad(call)
    assert checked(lines, tmp_path).findings == []
    FAULTS[code](decodes[0])
    done = checked(lines, tmp_path)
    assert done.findings[0].code == code
    assert done.lines[done.findings[0].round] == 4
    assert explain(done.findings[0], done.played).because


def _pad(call: Json) -> None:
    """A masked row more, of slot 0."""
    call["query_start_loc"].append(call["query_start_loc"][-1] + 1)
    for name in BY_ROW:
        call[name].append(0)
    call["masked"].append(True)
    call["locations"][0].append(0)
    for name in ("seq_lens", "slots", "sampled"):
        call[name].append(1 if name == "seq_lens" else 0)
    call["sample_rows"].append(call["query_start_loc"][-1] - 1)
    call["page_table"][0].append([0] * len(call["page_table"][0][0]))


ROUND = '{"event": "decode", "rows": [{"request": "a", "frontier": 2, "accept": 1}], "calls": []}'
HEAD = '{"format": "frontier-oracle/history", "version": 1, "spec": {"k": 4}}'
ADMIT = '{"event": "admit", "request": "a", "prompt": [1, 2]}'
CHUNK = '{"event": "extend", "rows": [{"request": "a", "start": 0, "count": 3}]}'
DIRTY = {
    "{": "not a JSON object",
    "[]": "expected a JSON object, got list",
    '{"event": "verify"}': "expected admit, extend, decode or release",
    '{"event": "admit", "request": "", "prompt": [1]}': '"request" is empty',
    '{"event": "admit", "request": "a", "prompt": [1.5]}': "prompt is 1 of float64",
    '{"event": "admit", "request": "a", "prompt": [4294967296]}': "no int32",
    '{"event": "admit", "request": "a", "prompt": [1], "hit": 1}': "at least one token is left",
    '{"event": "admit", "request": "a", "prompt": [1], "slot": 0}': "slot 0 is for padded rows",
    '{"event": "admit", "request": "a", "prompt": [1], "slot": 2147483648}': "slot 2147483648: expected at most",
    '{"event": "admit", "request": "a", "prompt_len": "12"}': "'12', expected int",
    '{"event": "admit", "request": "a", "prompt_len": 99999999999}': "a prompt of 99999999999 tokens",
    '{"event": "admit", "request": "a", "prompt": []}': "a prompt of 0 tokens",
    '{"event": "admit", "request": "a", "prompt": [NaN]}': "prompt is 1 of float64",
    ROUND.replace('"a",', '"a", "page_table": [[99999999999]],'): "a page beyond",
    ROUND.replace("accept", "accepts"): "unknown field 'accepts'",
    ROUND.replace('"accept": 1', '"accept": 5'): "accept 5 is outside 1..4",
    ROUND.replace('"a"', "null"): "round without a request",
    ROUND.replace("[]", '[{"depth": 3, "query_start_loc": [0, 4]}]'): "depth 3 is outside 0..2",
    ROUND.replace("[]", '[{"depth": 0, "query_start_loc": [0, 4, 8]}]'): "query_start_loc has 3 values",
    ROUND.replace("[]", '[{"depth": 0, "query_start_loc": [1, 4]}]'): "from 0 on, never falling",
    ROUND.replace("[]", '[{"depth": 0, "query_start_loc": [0, 2], "positions": [1]}]'): "shape 2",
    ROUND.replace("[]", '[{"depth": 0, "query_start_loc": [0, 1], "locations": [1]}]'): "locations is a single value",
    ROUND.replace("[]", '[{"depth": 0, "query_start_loc": [0, 1], "locations": [[-1]]}]'): "a number below 0",
}


@pytest.mark.parametrize("line, said", DIRTY.items())
def test_a_dirty_line_is_one_line_with_its_number(line: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([HEAD, ADMIT, "", line, '{"event": "release"}']), encoding="utf-8")
    history, dirty = read(path)
    assert history is None
    assert [d.split(": ")[0] for d in dirty] == [f"{path}:4", f"{path}:5"]
    assert said in dirty[0] and "\n" not in dirty[0]


def test_a_field_is_logged_always_or_never(tmp_path: Path) -> None:
    bare, call = '{"depth": 0, "query_start_loc": [0, 1]}', '{"depth": 0, "query_start_loc": [0, 1], "positions": [1]}'
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([HEAD, ROUND.replace("[]", f"[{call}]"), ROUND.replace("[]", f"[{bare}]")]))
    assert "(positions): log a field always or never" in read(path)[1][0]


@pytest.mark.parametrize(
    "head, said",
    [
        ("", "empty"),
        ("{}", '1: expected a header with "format"'),
        (HEAD.replace('"version": 1', '"version": 2'), "version 2, this tool reads 1..1"),
        (HEAD.replace('"k": 4', '"k": 1'), "k=1"),
        (HEAD.replace('"k": 4', '"k": 999999'), "at most 1024"),
        (HEAD.replace('"k": 4', '"k": 4, "tree": 1'), "unknown field 'tree'"),
        (HEAD.replace('"k": 4', '"k": 4, "hidden": "both"'), "'both', expected chain"),
        (HEAD.replace('"k": 4', '"k": 4, "groups": [{"page_size": 0}]'), "at least 1"),
        (HEAD.replace('"k": 4', '"k": 4, "steps": 0'), "steps 0: expected 1..k"),
        (HEAD.replace('"k": 4', '"k": 4, "groups": [{"page_size": 1099511627776}]'), "at most 1048576 positions"),
    ],
)
def test_what_is_no_history_is_refused(head: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text(head)
    with pytest.raises(RecordError) as caught:
        read(path)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "lines, said",
    [
        ([ROUND], "2: request 'a' is not live: its admit line is missing"),
        ([ADMIT, ADMIT], "3: request 'a' is admitted again without a release"),
        ([ADMIT, '{"event": "release", "request": "b"}'], "3: request 'b' is released, and is not live"),
        ([ADMIT, ROUND], "3: frontier 2 of 'a', but the lines before leave it at 0: a round is missing"),
        ([ADMIT, ROUND.replace("2,", "0,")], "3: 'a' decodes, but only 0 of its 2 tokens were read"),
        ([ADMIT, CHUNK], "3: chunk of 3 from 0 on passes the prompt of 2"),
    ],
)
def test_rounds_that_do_not_follow_from_those_before_are_named(lines: list[str], said: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join([HEAD, *lines]))
    history, dirty = read(path)
    assert history is not None, dirty
    with pytest.raises(RecordError) as caught:
        check(history)
    assert f"{path}:{said}" in str(caught.value)


def test_every_field_is_documented() -> None:
    text = (Path(__file__).parents[2] / "docs" / "history.md").read_text(encoding="utf-8")
    names = {*CALL_FIELDS, *ROW_FIELDS, "depth", "query_start_loc", "start", "count", "frontier", "accept", "prompt"}
    names |= {"prompt_len", "hit", "slot", "page_size", "window", "engine"}
    assert {name for name in names if f"`{name}`" not in text} == set()
