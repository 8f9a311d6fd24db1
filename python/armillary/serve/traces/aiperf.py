"""Results of AIPerf: `profile_export.jsonl`, a record of each request in a line.

Source: ai-dynamo/aiperf, docs/tutorials/working-with-profile-exports.md: `metadata` with
`request_start_ns` and `benchmark_phase`, `metrics` with values and units, `error`. The files with
texts in place of numbers of tokens are recognized and refused: `inputs.json`, `profile_export.json`
of genai-perf (triton-inference-server/perf_analyzer, genai-perf/docs/files.md)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...declared import shown
from .format import NO_CONTENTS, Format
from .recorded import Recorded
from .source import Source

_UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
_RECORDS = "profile_export.jsonl of AIPerf, whose records have numbers of tokens"


class _Records:
    """Records of one file."""

    def __init__(self, source: Source, recorded: Recorded) -> None:
        self.source, self.recorded = source, recorded
        self.is_timed = True
        recorded.is_sorted = False

    def read(self) -> None:
        """Reads all records."""
        for row in self.source.objects():
            about, metrics = self._part(row, "metadata"), self._part(row, "metrics")
            if about is None:
                continue
            if about.get("benchmark_phase") not in (None, "profiling"):
                self.recorded.leave_out("of the warm-up")
            elif row.get("error") is not None or about.get("was_cancelled") is True:
                self.recorded.leave_out("that failed")
            elif metrics is not None:
                self._add(about, metrics)
        if not self.is_timed:
            self.recorded.measured.clear()
        self.recorded.note(NO_CONTENTS)

    def _part(self, row: Mapping[str, Any], key: str) -> Mapping[str, Any] | None:
        value = row.get(key)
        if isinstance(value, dict) or (value is None and row.get("error") is not None):
            return value or {}
        self.recorded.fault(key, f"{shown(value)} is not an object", "an object")
        return None

    def _add(self, about: Mapping[str, Any], metrics: Mapping[str, Any]) -> None:
        start = self.recorded.nanoseconds("request_start_ns", about.get("request_start_ns"))
        prompt = self.recorded.count(
            "input_sequence_length", self._value(metrics, "input_sequence_length", "tokens")
        )
        output = self.recorded.output(
            "output_sequence_length", self._value(metrics, "output_sequence_length", "tokens")
        )
        first, end = (
            self._time(metrics, key) for key in ("time_to_first_token", "request_latency")
        )
        if start is None or prompt is None or output is None:
            return
        self.recorded.add(((self.recorded.fresh(), prompt),), output, start * 1000)
        if first is None or end is None or end < first:
            self.is_timed = False
        else:
            self.recorded.measured.append((first, end))

    def _value(self, metrics: Mapping[str, Any], key: str, unit: str) -> object:
        metric = metrics.get(key)
        if not isinstance(metric, dict) or metric.get("unit") != unit:
            return metric
        value = metric.get("value")
        return int(value) if isinstance(value, float) and value.is_integer() else value

    def _time(self, metrics: Mapping[str, Any], key: str) -> float | None:
        """Seconds; `None` where the record does not have them, as without streaming."""
        metric = metrics.get(key)
        if metric is None:
            return None
        unit = metric.get("unit") if isinstance(metric, dict) else None
        if not isinstance(metric, dict) or not isinstance(unit, str) or unit not in _UNITS:
            self.recorded.fault(key, f"unknown unit: {shown(unit)}", ", ".join(_UNITS))
            return None
        found = self.recorded.seconds(key, metric.get("value"))
        return None if found is None else found * _UNITS[unit]


def _read(source: Source, recorded: Recorded) -> None:
    _Records(source, recorded).read()


def _refuse(source: Source, recorded: Recorded) -> None:
    raise source.fault("", "holds texts or statistics, not the tokens of requests", _RECORDS)


FORMAT = Format("records of AIPerf", ("lines",), lambda names: {"metadata", "metrics"} <= names,
                _read)  # fmt: skip
TEXTS = Format(
    "texts and statistics of AIPerf and genai-perf",
    ("document", "lines"),
    lambda names: (
        "experiments" in names
        or ("data" in names and names <= {"data", "", "session_id", "payloads"})
        or {"input_config", "request_latency"} <= names
    ),
    _refuse,
)
