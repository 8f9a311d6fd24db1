"""Loads of LLMServingSim and measurements of its benchmark: a JSON object in each line.

A load has `input_toks`, `output_toks`, `arrival_time_ns`, and `input_tok_ids` where prompts share
prefixes. `requests.jsonl` of `bench run` has times of vLLM in addition: `queued_ts`,
`first_token_ts` and `last_token_ts` in seconds of the engine's clock. A request's arrival is then
`queued_ts`, as LLMServingSim takes it where `arrival_time` is of another clock. Source:
casys-kaist/LLMServingSim, docs/docs/workloads/jsonl-format.md, bench/README.md and
bench/core/validate.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...declared import shown
from .format import NO_CONTENTS, Format
from .prefixes import MOST_IDENTITY, Prefixes
from .recorded import Pieces, Recorded, picoseconds
from .source import Source

_STAMPS = ("queued_ts", "first_token_ts", "last_token_ts")


class _Lines:
    """Lines of one file."""

    def __init__(self, source: Source, recorded: Recorded) -> None:
        self.source, self.recorded = source, recorded
        self.prefixes = Prefixes(1, recorded.fresh)
        self.has_contents = False
        self.is_measured = {*_STAMPS} <= {*source.names}
        recorded.is_sorted = not self.is_measured

    def read(self) -> None:
        """Reads all lines."""
        for row in self.source.objects():
            if "sub_requests" in row:
                message = "is a session: its requests follow on answers, which is not modeled"
                allowed = "requests with arrival_time_ns"
                raise self.source.fault(f"line {self.source.line}: sub_requests", message, allowed)
            keys = _STAMPS if self.is_measured else ("arrival_time_ns",)
            if not self.recorded.require(row, "input_toks", "output_toks", *keys):
                continue
            tokens = self.recorded.count("input_toks", row["input_toks"])
            output = self.recorded.output("output_toks", row["output_toks"])
            prompt = self._prompt(row, tokens) if tokens else None
            time, measured = self._times(row)
            if prompt and output and time is not None:
                self.recorded.add(prompt, output, time)
                if measured:
                    self.recorded.measured.append(measured)
            if self.recorded.is_full:
                break
        if not self.has_contents:
            self.recorded.note(NO_CONTENTS)
        if self.is_measured:
            self.recorded.note("requests arrive when the engine has queued them (queued_ts)")

    def _prompt(self, row: Mapping[str, Any], tokens: int) -> Pieces | None:
        given = row.get("input_tok_ids")
        if given is None:
            return ((self.recorded.fresh(), tokens),)
        self.has_contents = True
        if not isinstance(given, list) or len(given) != tokens:
            have = f"{len(given)} tokens" if isinstance(given, list) else shown(given)
            self.recorded.fault("input_tok_ids", f"{have} for input_toks {tokens}", "all tokens")
            return None
        for each in given:
            if type(each) is not int or not 0 <= each < MOST_IDENTITY:
                message = f"{shown(each)} is not a token"
                self.recorded.fault("input_tok_ids", message, "whole numbers from 0")
                return None
        return self.prefixes.pieces(given, tokens)

    def _times(self, row: Mapping[str, Any]) -> tuple[int | None, tuple[float, float] | None]:
        """Arrival, ps, and measured seconds."""
        if not self.is_measured:
            time = self.recorded.nanoseconds("arrival_time_ns", row["arrival_time_ns"])
            return (None if time is None else time * 1000), None
        queued, first, end = (self.recorded.seconds(key, row[key]) for key in _STAMPS)
        if queued is None or first is None or end is None:
            return None, None
        if not queued <= first <= end:
            message = f"queued at {queued:g} s, first token at {first:g}, last at {end:g}"
            self.recorded.fault("first_token_ts", message, "in this order")
            return None, None
        return picoseconds(queued), (first - queued, end - queued)


def _read(source: Source, recorded: Recorded) -> None:
    _Lines(source, recorded).read()


FORMAT = Format(
    "load of LLMServingSim",
    ("lines",),
    lambda names: "input_toks" in names or "sub_requests" in names,
    _read,
)
