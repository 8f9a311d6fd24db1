"""Results of `vllm bench serve --save-result --save-detailed`: one JSON object.

Lengths, starts and times of all requests. A run with `--max-concurrency` is a closed loop. Source:
vLLM 0.19.0, vllm/benchmarks/serve.py: `input_lens`, `output_lens`, `ttfts`, `itls`, `start_times`,
`errors`, `max_concurrency`. Times are seconds; `itls` are gaps between chunks of an answer."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...declared import shown
from .format import NO_CONTENTS, Format
from .recorded import MOST_SECONDS, Recorded, number, picoseconds
from .source import Source

_DETAILED = "vllm bench serve --save-result --save-detailed"


def _read(source: Source, recorded: Recorded) -> None:
    found = source.document
    if source.first is not None:
        found = source.first
        if source._text() is not None:
            message = "has the results of several runs"
            raise source.fault(f"line {source.line}", message, "the line of one run, in a file")
    _Result(source, found, recorded).read()


class _Result:
    """The result of one run."""

    def __init__(self, source: Source, found: Mapping[str, Any], recorded: Recorded) -> None:
        self.source, self.found, self.recorded = source, found, recorded
        recorded.is_sorted = False

    def read(self) -> None:
        """Reads all requests."""
        inputs, outputs = self._list("input_lens"), self._list("output_lens")
        if inputs is None or outputs is None:
            missing = "input_lens" if inputs is None else "output_lens"
            raise self.source.fault(missing, "is missing: no lengths of requests", _DETAILED)
        starts, firsts, gaps = (self._list(key) for key in ("start_times", "ttfts", "itls"))
        errors = self._list("errors")
        loop = self._loop()
        for number_, (given, generated) in enumerate(zip(inputs, outputs, strict=True)):
            if generated == 0 or (errors is not None and errors[number_]):
                self.recorded.leave_out("that failed")
                continue
            place = f"request {number_}"
            prompt = self.recorded.count("input_lens", given, 1, place)
            output = self.recorded.count("output_lens", generated, 1, place)
            time = None
            if starts is not None and not loop:
                time = self.recorded.seconds("start_times", starts[number_], place)
                if time is None:
                    continue
            times = None
            if firsts is not None and gaps is not None:
                times = self._times(place, firsts[number_], gaps[number_])
            if prompt and output:
                at = None if time is None else picoseconds(time)
                self.recorded.add(((self.recorded.fresh(), prompt),), output, at)
                if times:
                    self.recorded.measured.append(times)
        if self.recorded.measured and len(self.recorded.measured) != len(self.recorded.requests):
            self.recorded.measured.clear()
        self.recorded.concurrency = loop
        self.recorded.note(NO_CONTENTS)

    def _list(self, key: str) -> list[Any] | None:
        value = self.found.get(key)
        if value is None:
            return None
        if not isinstance(value, list):
            raise self.source.fault(key, f"{shown(value)} is not a list", "a list of all requests")
        inputs = self.found.get("input_lens")
        if isinstance(inputs, list) and len(value) != len(inputs):
            message = f"has {len(value)} values for {len(inputs)} requests"
            raise self.source.fault(key, message, "one for each request")
        return value

    def _loop(self) -> int:
        """Requests at a time; 0 where their starts decide."""
        value = self.found.get("max_concurrency")
        if value is None:
            return 0
        found = self.recorded.count("max_concurrency", value, 1, "the run") or 0
        if self.found.get("request_rate") not in (None, "inf"):
            self.recorded.note(f"starts are those of the run, with at most {found} at a time")
            return 0
        return found

    def _times(self, place: str, first: object, gaps: object) -> tuple[float, float] | None:
        """Measured seconds to the first token and to the end."""
        start = self.recorded.seconds("ttfts", first, place)
        if not isinstance(gaps, list):
            self.recorded.fault("itls", f"{shown(gaps)} is not a list", "gaps, seconds", place)
            return None
        rest = sum(map(number, gaps))
        if start is None or not 0 <= rest <= MOST_SECONDS:
            if start is not None:
                self.recorded.fault("itls", "has an invalid time", "seconds, 0 or more", place)
            return None
        return start, start + rest


FORMAT = Format(
    "result of vLLM's benchmark",
    ("lines", "document"),
    lambda names: "input_lens" in names or {"request_throughput", "total_input_tokens"} <= names,
    _read,
)
