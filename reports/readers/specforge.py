"""SpecForge: bench_eagle3 results, the newer report, and the SpecBundle dashboard's data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from frontier_oracle.reports.builder import TraceBuilder, Unit, as_float, as_int
from frontier_oracle.reports.readers.base import JsonReader, Record, section, text_or_none
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

    def _rows(self, name: str, category: str, results: Any) -> Iterator[tuple[str, str, Record, Record]]:
        for config in results if isinstance(results, list) else ():
            metrics = config.get("metrics") if isinstance(config, dict) else None
            for n, row in enumerate(metrics if isinstance(metrics, list) else ()):
                if isinstance(row, dict) and "accept_length" in row:
                    label = "-".join(
                        str(config.get(key)) for key in ("batch_size", "steps", "topk", "num_draft_tokens")
                    )
                    yield f"{name} {label} {text_or_none(row.get('Name')) or n}", category, config, row

    def _add(self, rows: Iterator[tuple[str, str, Record, Record]], line: int, out: TraceBuilder) -> None:
        widths = set()
        for name, category, config, row in rows:
            widths.add((as_int(config.get("topk")), as_int(config.get("num_draft_tokens"))))
            out.add(
                Unit(
                    name,
                    line,
                    kind="aggregate",
                    category=category,
                    requests=as_int(row.get("num_questions")),
                    reported_mean=as_float(row.get("accept_length")),
                )
            )
        if len(widths) == 1:
            topk, width = widths.pop()
            out.header.tree = None if topk is None else topk > 1
            if width and topk == 1:
                set_k(out, width - 1)


class SpecForgeBench(SpecForge):
    """``*_results_*.jsonl`` is one pretty-printed document despite its name (pitfall 17)."""

    name = "specforge-bench"

    def _benches(self, record: Record) -> list[tuple[str, Any]]:
        return [(key, value) for key, value in record.items() if isinstance(value, list)]

    def recognise(self, record: Record) -> bool:
        return isinstance(record.get("model"), str) and any(
            True for key, value in self._benches(record) for _ in self._rows(key, key, value)
        )

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        out.header.model = text_or_none(record.get("model"))
        self._add((row for key, value in self._benches(record) for row in self._rows(key, key, value)), line, out)


class SpecForgeDashboard(SpecForge):
    """{model: {benchmark: {"results": [...]}}}: published means only."""

    name = "specforge-dashboard"

    def _all(self, record: Record) -> Iterator[tuple[str, str, Record, Record]]:
        for model, benches in record.items():
            for bench, body in benches.items() if isinstance(benches, dict) else ():
                yield from self._rows(f"{model} {bench}", str(bench), section(body).get("results"))

    def recognise(self, record: Record) -> bool:
        return any(True for _ in self._all(record))

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        self._add(self._all(record), line, out)


class SpecForgeReport(SpecForge):
    """runs[].metrics with counts; ``average_acceptance_length`` is an unweighted mean over requests (pitfall 4)."""

    name = "specforge-report"

    def _runs(self, record: Record) -> list[Record]:
        runs = record.get("runs")
        return [run for run in runs if isinstance(run, dict)] if isinstance(runs, list) else []

    def recognise(self, record: Record) -> bool:
        flat = "average_acceptance_length" in record and "spec_verify_count" in record
        return flat or any("spec_verify_count" in section(run, "metrics") for run in self._runs(record))

    def read(self, record: Record, line: int, out: TraceBuilder) -> None:
        out.header.model = text_or_none(record.get("model"))
        out.header.order_known = "totals"
        for n, run in enumerate(self._runs(record) or [{"metrics": record}]):
            metrics = section(run, "metrics")
            task = text_or_none(section(run, "task").get("name"))
            label = text_or_none(section(run, "config").get("label"))
            out.add(
                Unit(
                    " ".join(part for part in (task, label) if part) or f"run {n}",
                    line,
                    kind="aggregate",
                    category=task,
                    verify_steps=as_int(metrics.get("spec_verify_count")),
                    completion_tokens=as_int(metrics.get("output_tokens")),
                    requests=as_int(metrics.get("num_requests")),
                    prefill_in_rounds=False,
                    reported_mean=as_float(metrics.get("accept_length")),
                )
            )
            if "average_acceptance_length" in metrics:
                out.number(
                    "average_acceptance_length (mean over requests)",
                    metrics["average_acceptance_length"],
                    "completion_over_verify:requests",
                    line,
                )
