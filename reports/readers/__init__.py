"""The registry of formats, in the order in which their shapes are tried (the more particular first)."""

from __future__ import annotations

from frontier_oracle.reports.readers import (
    aiperf,
    canonical_rows,
    dflash,
    golden,
    llamacpp,
    prometheus,
    sglang_bench,
    sglang_log,
    sglang_meta,
    specbench,
    specdec_bench,
    specforge,
    tokenspeed,
    trtllm,
    vllm_bench,
    vllm_log,
    vllm_response,
)
from frontier_oracle.reports.readers.base import JsonReader, TextReader

JSON_READERS: tuple[type[JsonReader], ...] = (
    vllm_response.VllmResponse,
    sglang_meta.SglangChat,
    tokenspeed.TokenSpeedMeta,
    sglang_meta.SglangMeta,
    trtllm.TrtllmIterations,
    trtllm.TrtllmPerfMetrics,
    trtllm.TrtllmBench,
    llamacpp.LlamaCppTimings,
    specbench.SpecBench,
    specbench.EagleAnswers,
    dflash.DflashRuns,
    dflash.DflashSamples,
    vllm_bench.VllmBench,
    sglang_bench.SglangServerInfo,
    sglang_bench.SglangBench,
    aiperf.Aiperf,
    specdec_bench.SpecdecBench,
    canonical_rows.CanonicalRows,
    specforge.SpecForgeReport,
    llamacpp.LlamaCppReceipts,
    specforge.SpecForgeBench,
    specforge.SpecForgeDashboard,
)

TEXT_READERS: tuple[type[TextReader], ...] = (
    vllm_log.VllmLog,
    vllm_log.VllmV0Log,
    vllm_bench.VllmBenchConsole,
    sglang_log.SglangLog,
    tokenspeed.TokenSpeedLog,
    tokenspeed.TokenSpeedBatchLog,
    llamacpp.LlamaCppLog,
    llamacpp.LlamaCppOldLog,
    llamacpp.LlamaCppStatistics,
    trtllm.TrtllmBenchConsole,
    prometheus.VllmMetrics,
    prometheus.SglangMetrics,
    prometheus.TrtllmMetrics,
    prometheus.LlamaCppMetrics,
    prometheus.TokenSpeedMetrics,
    golden.GoldenCurves,
)

COLUMNAR = ("canonical-parquet", "canonical-csv")


def format_names() -> list[str]:
    """Every name that ``--input-format`` takes."""
    return [reader.name for reader in (*JSON_READERS, *TEXT_READERS)] + list(COLUMNAR)
