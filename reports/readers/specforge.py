"""SpecForge: bench_eagle3 results, the newer report, and the SpecBundle dashboard's data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from frontier_oracle.reports.builder import TraceBuilder, Unit
from frontier_oracle.reports.readers.base import JsonReader, section
from frontier_oracle.reports.readers.fields import Fields, Record
from frontier_oracle.reports.readers.vllm_response import set_k

_FIELDS: dict[str, Any] = {
    "bonus_included": True,
    "aggregation_of_source_mean": "pooled",
    "reported_mean": "completion_over_verify",
    "order_known": "mean",
    "truncation": "committed",
}


class SpecForge(JsonReader):
    """Shared: one row per published mean. accept_length is completion / verify steps, 1.0 without speculation."""

    engine = "sglang"
    header_fields = _FIELDS

    def _add(self, benches: Iterable[tuple[str, str, list[Fields]]], out: TraceBuilder) -> None:
        """``benches``: (name, category, configurations), each with ``metrics``, the rows of which hold a mean."""
        widths = set()
        for name, category, configs in benches:
            for config in configs:
                parts = [config.integer(key) for key in ("batch_size", "steps", "topk", "num_draft_tokens")]
                label = "-".join(map(str, parts))
                widths.add((parts[2], parts[3]))
                for n, row in enumerate(config.sections("metrics")):
                    self._row(f"{name} {label} {row.text('Name') or n}", category, row, out)
        if len(widths) == 1:
            topk, width = widths.pop()
            out.header.tree = None if topk is None else topk > 1
            if width and topk == 1:
                set_k(out, width - 1)

    def _row(self, name: str, category: str, row: Fields, out: TraceBuilder) -> None:
        if "accept_length" not in row:
            out.problem("unreadable record", row.line, f"{row.path.rstrip('.')} has no accept_length")
            return
        mean, requests = row.number("accept_length"), row.integer("num_questions")
        out.add(Unit(name, row.line, kind="aggregate", category=category, requests=requests, reported_mean=mean))


def _holds_means(configs: Any) -> bool:
    """True for a list of configurations, one of which has a row with a mean."""
    metrics = [section(config).get("metrics") for config in configs] if isinstance(configs, list) else []
    return any("accept_length" in section(row) for rows in metrics if isinstance(rows, list) for row in rows)


class SpecForgeBench(SpecForge):
    """``*_results_*.jsonl`` is one pretty-printed document despite its name (pitfall 17)."""

    name = "specforge-bench"

    def recognise(self, record: Record) -> bool:
        return isinstance(record.get("model"), str) and any(map(_holds_means, record.values()))

    def read(self, record: Fields, out: TraceBuilder) -> None:
        out.header.model = record.text("model")
        keys = [key for key, value in record.record.items() if _holds_means(value)]
        self._add(((key, key, record.sections(key)) for key in keys), out)


class SpecForgeDashboard(SpecForge):
    """{model: {benchmark: {"results": [...]}}}: published means only."""

    name = "specforge-dashboard"

    def _benches(self, record: Record) -> Iterator[tuple[str, str]]:
        for model, benches in record.items():
            for bench, body in section(benches).items():
                if _holds_means(section(body).get("results")):
                    yield model, bench

    def recognise(self, record: Record) -> bool:
        return any(True for _ in self._benches(record))

    def read(self, record: Fields, out: TraceBuilder) -> None:
        found = self._benches(record.record)
        self._add(((f"{m} {b}", b, record.section(m, b).sections("results")) for m, b in found), out)


class SpecForgeReport(SpecForge):
    """runs[].metrics with counts; ``average_acceptance_length`` is an unweighted mean over requests (pitfall 4)."""

    name = "specforge-report"

    def recognise(self, record: Record) -> bool:
        flat = "average_acceptance_length" in record and "spec_verify_count" in record
        runs = record["runs"] if isinstance(record.get("runs"), list) else []
        return flat or any("spec_verify_count" in section(run, "metrics") for run in runs)

    def read(self, record: Fields, out: TraceBuilder) -> None:
        out.header.model = record.text("model")
        out.header.order_known = "totals"
        runs = [(run, run.section("metrics")) for run in record.sections("runs")] or [(record, record)]
        for n, (run, metrics) in enumerate(runs):
            task, label = run.section("task").text("name"), run.section("config").text("label")
            out.add(
                Unit(
                    " ".join(part for part in (task, label) if part) or f"run {n}",
                    record.line,
                    kind="aggregate",
                    category=task,
                    verify_steps=metrics.integer("spec_verify_count"),
                    completion_tokens=metrics.integer("output_tokens"),
                    requests=metrics.integer("num_requests"),
                    prefill_in_rounds=False,
                    reported_mean=metrics.number("accept_length"),
                )
            )
            out.number(
                "average_acceptance_length (mean over requests)",
                metrics.number("average_acceptance_length"),
                "completion_over_verify:requests",
                record.line,
            )
