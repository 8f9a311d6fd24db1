"""A table of one's own: CSV with input_tokens, output_tokens, and arrival_s.

Columns: `arrival_s` (or `t_s`; without it the load is a closed loop), `input_tokens`,
`output_tokens`, `priority` (smaller is more urgent), `prefix` (a name: prompts with the same name
begin with the same tokens) and `prefix_tokens` (how many), `ttft_s` and `e2e_s` (measured seconds
to the first token and to the end). Columns that name the run, as in tables of LLMServingSim's
measurements, are passed over if all rows are of one run."""

from __future__ import annotations

import re

from .format import NO_CONTENTS, Format
from .recorded import Pieces, Recorded, picoseconds
from .source import Source

_NEEDED = ("input_tokens", "output_tokens")
_KNOWN = (
    "arrival_s", "t_s", *_NEEDED, "priority", "prefix", "prefix_tokens", "ttft_s", "e2e_s",
)  # fmt: skip
_OF_RUNS = (
    "run", "gpu", "model", "tp", "max_num_seqs", "max_num_batched_tokens", "i", "queue_s",
)  # fmt: skip
_PRIORITY = re.compile(r"-?[0-9]{1,9}", re.ASCII)


class _Rows:
    """Rows of a table by column."""

    def __init__(self, source: Source, recorded: Recorded) -> None:
        self.source, self.recorded = source, recorded
        self.places = {name: place for place, name in enumerate(source.names)}
        self.prefixes: dict[str, int] = {}
        self.run = ""

    def check(self) -> None:
        """Checks the columns."""
        names = {*self.places}
        unknown = sorted(names - {*_KNOWN, *_OF_RUNS})
        if unknown:
            raise self.source.fault("line 1", f"unknown column {unknown[0]!r}", ", ".join(_KNOWN))
        for one, other in (("prefix", "prefix_tokens"), ("prefix_tokens", "prefix"),
                           ("ttft_s", "e2e_s"), ("e2e_s", "ttft_s")):  # fmt: skip
            if one in names and other not in names:
                message = f"has the column {one}, but not {other}"
                raise self.source.fault("line 1", message, "both or none")
        if {"arrival_s", "t_s"} <= names:
            raise self.source.fault("line 1", "has both arrival_s and t_s", "one of them")

    def read(self) -> None:
        """Reads all rows."""
        when = "arrival_s" if "arrival_s" in self.places else "t_s"
        for row in self.source.rows():
            time = None
            if when in self.places:
                seconds = self.recorded.seconds(when, row[self.places[when]])
                time = None if seconds is None else picoseconds(seconds)
            self._same_run(row)
            prompt = self._prompt(row)
            output = self.recorded.output("output_tokens", row[self.places["output_tokens"]])
            priority = self._priority(row)
            times = self._measured(row)
            if prompt and output and (time is not None or when not in self.places):
                self.recorded.add(prompt, output, time, priority)
                if times:
                    self.recorded.measured.append(times)
            if self.recorded.is_full:
                break
        if "prefix" not in self.places:
            self.recorded.note(NO_CONTENTS)

    def _same_run(self, row: list[str]) -> None:
        if "run" not in self.places:
            return
        run = row[self.places["run"]]
        if self.run and run != self.run:
            message = f"is of another run ({run[:80]!r}) than the lines before"
            raise self.source.fault(f"line {self.source.line}: run", message, "rows of one run")
        self.run = run

    def _prompt(self, row: list[str]) -> Pieces:
        """Pieces of a prompt; none of one with a fault."""
        tokens = self.recorded.count("input_tokens", row[self.places["input_tokens"]])
        if tokens is None or "prefix" not in self.places:
            return () if tokens is None else ((self.recorded.fresh(), tokens),)
        name = row[self.places["prefix"]]
        given = row[self.places["prefix_tokens"]]
        if not name:
            if given not in ("", "0"):
                message = f"{given!r} tokens of a prefix without a name"
                self.recorded.fault("prefix_tokens", message, "a name in the column prefix")
                return ()
            return ((self.recorded.fresh(), tokens),)
        shared = self.recorded.count("prefix_tokens", given)
        if shared is None:
            return ()
        if shared > tokens:
            message = f"a prefix of {shared} tokens in a prompt of {tokens}"
            self.recorded.fault("prefix_tokens", message, "at most input_tokens")
            return ()
        content = self.prefixes.get(name)
        if content is None:
            content = self.prefixes[name] = self.recorded.fresh()
        own = ((self.recorded.fresh(), tokens - shared),) if tokens > shared else ()
        return ((content, shared), *own)

    def _priority(self, row: list[str]) -> int:
        text = row[self.places["priority"]] if "priority" in self.places else "0"
        if _PRIORITY.fullmatch(text):
            return int(text)
        self.recorded.fault("priority", f"invalid priority: {text!r}", "a whole number")
        return 0

    def _measured(self, row: list[str]) -> tuple[float, float] | None:
        if "ttft_s" not in self.places:
            return None
        first = self.recorded.seconds("ttft_s", row[self.places["ttft_s"]])
        end = self.recorded.seconds("e2e_s", row[self.places["e2e_s"]])
        if first is None or end is None:
            return None
        if end < first:
            self.recorded.fault("e2e_s", f"{end:g} s, before the first token", "ttft_s or later")
            return None
        return first, end


def _read(source: Source, recorded: Recorded) -> None:
    rows = _Rows(source, recorded)
    rows.check()
    rows.read()


FORMAT = Format("table of requests", ("csv",), lambda names: {*_NEEDED} <= names, _read)
