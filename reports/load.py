"""Reads files, directories and globs into traces: what each file is, is found from its content."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

from frontier_oracle.oracle.errors import UsageError
from frontier_oracle.reports.builder import TraceBuilder
from frontier_oracle.reports.canonical import Trace
from frontier_oracle.reports.gate_runs import GateRun, is_record, read_json_report, read_record
from frontier_oracle.reports.problems import ProblemLog, printable
from frontier_oracle.reports.readers import COLUMNAR, JSON_READERS, TEXT_READERS, canonical_arrow, format_names, source
from frontier_oracle.reports.readers.base import JsonReader, TextReader
from frontier_oracle.reports.readers.fields import Fields
from frontier_oracle.reports.readers.json_values import nested, parse
from frontier_oracle.reports.readers.source import SourceError

_NESTED = 2
"""How deep a document's lists are searched for records if the document itself is of no known format."""
SYNTHETIC = (
    b"rejection_sample_method=synthetic",
    b"rejection_sample_method='synthetic'",
    b"SGLANG_SIMULATE_ACC_LEN",
    b"TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS",
)
"""Marks of forced acceptance in a log (pitfall 12)."""
_HEAD = 4096
_HOPELESS = 1000
"""A file of which so many lines are no known records, and none is one, is not read as JSON to its end."""
_RESPONSES = frozenset(
    (
        "vllm-response",
        "sglang-openai",
        "sglang-meta-info",
        "tokenspeed-meta-info",
        "trtllm-perf-metrics",
        "llamacpp-response",
        "aiperf-record",
    )
)
"""Formats in which a file of one record is one request: such files of a directory make one trace."""


@dataclass
class Loaded:
    """Every trace and gate record read, the files nothing could be made of or passed over, and what was wrong."""

    traces: list[Trace] = field(default_factory=list)
    gate_runs: list[GateRun] = field(default_factory=list)
    unrecognised: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    own_output: list[str] = field(default_factory=list)
    problems: ProblemLog = field(default_factory=ProblemLog)
    files: int = 0

    def all_problems(self) -> ProblemLog:
        """Of the files that could not be read and of every trace."""
        problems = ProblemLog()
        problems.merge(self.problems)
        for trace in self.traces:
            problems.merge(trace.problems)
        return problems

    def defects(self) -> int:
        return self.problems.total() + sum(trace.problems.total() for trace in self.traces) + len(self.unrecognised)


def load(paths: Sequence[str | Path], *, input_format: str | None = None, output: str | Path | None = None) -> Loaded:
    """Read every path (file, directory or glob). UsageError if a named file cannot be read or is of no known format.

    In a directory or glob the same is counted and listed instead. ``input_format`` forces one format on all files.
    ``output`` is where a report is written: an earlier report found there is no input, and is listed.
    """
    if input_format is not None and input_format not in format_names():
        raise UsageError(f"--input-format {input_format}: unknown; one of {', '.join(sorted(format_names()))}")
    if not paths:
        raise UsageError("no input: give files, directories or globs")
    loaded = Loaded()
    shared: dict[tuple[str, str], TraceBuilder] = {}
    for given in paths:
        files, named, skipped = source.expand(str(given))
        loaded.skipped += map(printable, skipped)
        for path in files:
            if not named and output is not None and path.resolve().is_relative_to(Path(output).resolve()):
                loaded.own_output.append(printable(path))
                continue
            loaded.files += 1
            try:
                run = _gate_run(path) if input_format is None else None
                traces = [] if run else _File(path, input_format, None if named else shared).read()
                loaded.gate_runs += [run] if run else []
            except SourceError as error:
                if named:
                    raise
                loaded.problems.add("unreadable file", str(path), None, str(error))
                continue
            if traces is None:
                if named:
                    raise UsageError(_unknown(path, input_format))
                loaded.unrecognised.append(printable(path))
            else:
                loaded.traces += traces
    loaded.traces += [builder.finish() for builder in shared.values()]
    return loaded


def _gate_run(path: Path) -> GateRun | None:
    """The gate's or the fuzzer's record or JSON report, if the file is one."""
    if source.magic(path)[:1] != b"{":
        return None
    with path.open("rb") as stream:
        head = stream.read(_HEAD)
    if is_record(head.split(b"\n", 1)[0]):
        return read_record(path)
    return read_json_report(path) if b'"verdict"' in head and b'"sentence"' in head else None


def _unknown(path: Path, input_format: str | None) -> str:
    if input_format is not None:
        return f"{path}: nothing in it reads as {input_format}; leave --input-format out to find the format by content"
    return f"{path}: of no known format; docs/cli.md lists the formats, --input-format NAME forces one"


class _File:
    """One file on its way into traces. ``shared`` collects single-response files of a directory (None: named file)."""

    def __init__(self, path: Path, forced: str | None, shared: dict[tuple[str, str], TraceBuilder] | None) -> None:
        self.path, self.forced, self.shared = path, forced, shared
        self.shown = printable(path)
        self.problems = ProblemLog()
        self.builders: dict[str, TraceBuilder] = {}
        self.records = 0
        self.single = False
        self.too_large: SourceError | None = None

    def read(self) -> list[Trace] | None:
        """The file's traces; an empty list if they went into ``shared``; None if nothing was recognised."""
        head = source.magic(self.path)
        if self.forced == "canonical-parquet" or (self.forced is None and head == source.PARQUET_MAGIC):
            return [self._sealed(canonical_arrow.read_parquet(self.path, self.shown))]
        first = next((line for _, line in islice(source.lines(self.path), 200) if line.strip()), b"")
        if self.forced == "canonical-csv" or (self.forced is None and canonical_arrow.is_csv_header(first)):
            return [self._sealed(canonical_arrow.read_csv(self.path, self.shown))]
        start = first.lstrip(b"\xef\xbb\xbf \t")
        json_forced = any(reader.name == self.forced for reader in JSON_READERS)
        if json_forced or (self.forced is None and start[:1] in (b"{", b"[") or start.startswith(b"data: {")):
            self._read_json()
        if not self.builders and self.forced not in COLUMNAR and not json_forced:
            self.problems = ProblemLog()  # what is wrong with it as JSON says nothing about a log
            self._read_text()
        if not self.builders and self.too_large is not None:
            raise self.too_large
        return self._finish()

    def _sealed(self, trace: Trace) -> Trace:
        trace.header.source_file_sha256 = source.sha256(self.path)
        return trace

    def _finish(self) -> list[Trace] | None:
        if not self.builders:
            return None
        if self.shared is not None and self.records == 1 and set(self.builders) <= _RESPONSES:
            return []
        traces = [builder.finish() for builder in self.builders.values()]
        digest = source.sha256(self.path)
        for trace in traces:
            trace.header.source_file_sha256 = digest
        traces[0].problems.merge(self.problems)
        return traces

    def _builder(self, reader: JsonReader | TextReader) -> TraceBuilder:
        builder = self.builders.get(reader.name)
        if builder is None:
            header = reader.header()
            header.source_file = self.shown
            builder = self.builders[reader.name] = TraceBuilder(header)
        return builder

    def _read_json(self) -> None:
        readers = [reader() for reader in JSON_READERS if self.forced in (None, reader.name)]
        used: dict[str, JsonReader] = {}
        last: JsonReader | None = None
        for line, record in self._records():
            self.records += 1
            if last is None or not last.recognise(record):
                last = next((reader for reader in readers if reader.recognise(record)), None)
            if last is None:
                self.problems.add(
                    "unrecognised record", self.shown, line, f"keys {', '.join(map(str, list(record)[:8]))}"
                )
                continue
            used[last.name] = last
            target = self._target(last)
            last.read(Fields(record, line, target), target)
        for reader in used.values():
            reader.finish(self.builders[reader.name])

    def _target(self, reader: JsonReader) -> TraceBuilder:
        """The builder of this file, or the directory's if this is a file of a single response."""
        if self.shared is None or reader.name not in _RESPONSES or not self.single:
            return self._builder(reader)
        key = (reader.name, str(self.path.parent))
        builder = self.shared.get(key)
        if builder is None:
            header = reader.header()
            header.source_file = printable(self.path.parent)
            builder = self.shared[key] = TraceBuilder(header)
        builder.at_file(self.shown)
        return self.builders.setdefault(reader.name, builder)

    def _document(self) -> Any:
        """The whole file as one JSON value, or a string that says why not."""
        try:
            return parse(source.whole(self.path))
        except SourceError as error:
            self.too_large = error
            return str(error)

    def _records(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """(line, record) of a JSONL file, an event stream, one document, or a document that lists records."""
        lines = ((n, line) for n, line in source.lines(self.path) if line.strip() and line.strip() != b"data: [DONE]")
        head = list(islice(lines, 2))
        parsed = [parse(line) for _, line in head]
        if parsed and isinstance(parsed[0], str) and not (len(parsed) > 1 and isinstance(parsed[1], dict)):
            document = self._document()
            if not isinstance(document, str):
                self.single = isinstance(document, dict)
                yield from self._of_document(document)
                return
        self.single = len(head) == 1 and isinstance(parsed[0], dict)
        if self.single or (len(head) == 1 and isinstance(parsed[0], list)):
            yield from self._of_document(parsed[0])
            return
        for number, line in chain(head, lines):
            record = parse(line)
            if isinstance(record, dict):
                yield number, record
            else:
                why = record if isinstance(record, str) else "not an object"
                self.problems.add("broken line", self.shown, number, why)
                if self.problems.total() > _HOPELESS and not self.builders:
                    return

    def _of_document(self, document: Any) -> Iterator[tuple[int, dict[str, Any]]]:
        if isinstance(document, dict) and (self.forced or any(reader().recognise(document) for reader in JSON_READERS)):
            yield 1, document
            return
        found = list(nested(document, _NESTED))
        self.single = self.single and not found
        yield from enumerate(found, start=1)
        if not found and isinstance(document, dict):
            yield 1, document

    def _read_text(self) -> None:
        readers = [reader() for reader in TEXT_READERS if self.forced in (None, reader.name)]
        opened: list[TextReader] = []
        needles = sorted({needle for reader in readers for needle in reader.needles} | set(SYNTHETIC))
        synthetic = 0
        for number, line in source.matching_lines(self.path, needles, lambda: bool(opened)):
            if not synthetic and any(mark in line for mark in SYNTHETIC):
                synthetic = number
            for reader in readers:
                if reader in opened or any(needle in line for needle in reader.needles):
                    self._feed(reader, opened, line, number)
        for reader in readers:
            if reader.name in self.builders:
                reader.finish(self.builders[reader.name])
                if reader.opens and not len(self.builders[reader.name]):
                    del self.builders[reader.name]  # a needle and nothing after it
        for builder in self.builders.values() if synthetic else ():
            builder.header.synthetic_acceptance = "yes"
            builder.note(f"SYNTHETIC acceptance: line {synthetic} of the log names a knob that forces accept lengths")

    def _feed(self, reader: TextReader, opened: list[TextReader], line: bytes, number: int) -> None:
        fresh = reader.name not in self.builders
        builder = self._builder(reader)
        try:
            known = reader.feed(line.decode("utf-8", "replace").rstrip("\r\n"), number, builder)
        except ValueError:  # a pattern matched digits that are no number, such as 1.2.3
            builder.problem("unreadable log line", number, f"a number of the {reader.name} line is damaged")
            known = True
        if reader.opens and reader not in opened:
            opened.append(reader)
        if fresh and not known and not reader.opens:
            del self.builders[reader.name]
