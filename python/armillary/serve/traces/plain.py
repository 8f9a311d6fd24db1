"""A table of one's own: CSV with input_tokens, output_tokens, and arrival_s.

Columns: `arrival_s` (or `t_s`; without it the load is a closed loop), `input_tokens`,
`output_tokens`, `priority` (smaller is more urgent), `prefix` (a name: prompts with the same name
begin with the same tokens) and `prefix_tokens` (how many), `ttft_s` and `e2e_s` (measured seconds
to the first token and to the end), `session` and `think_s`: rows of a session after its first one
are sent `think_s` seconds after the answer before them, and their prompts begin with the
conversation so far. Columns that name the run, as in tables of LLMServingSim's
measurements, are passed over if all rows are of one run."""

from __future__ import annotations

import re

from ..load import MOST_TURNS
from .format import NO_CONTENTS, TURNS_ALONE, Format
from .recorded import Pieces, Recorded, picoseconds
from .source import Source

_NEEDED = ("input_tokens", "output_tokens")
_KNOWN = (
    "arrival_s", "t_s", *_NEEDED, "priority", "prefix", "prefix_tokens", "ttft_s", "e2e_s",
    "session", "think_s",
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
        self.last: dict[str, int] = {}
        """The last request of each session."""

    def check(self) -> None:
        """Checks the columns."""
        names = {*self.places}
        unknown = sorted(names - {*_KNOWN, *_OF_RUNS})
        if unknown:
            raise self.source.fault("line 1", f"unknown column {unknown[0]!r}", ", ".join(_KNOWN))
        for one, other in (("prefix", "prefix_tokens"), ("prefix_tokens", "prefix"),
                           ("ttft_s", "e2e_s"), ("e2e_s", "ttft_s"),
                           ("session", "think_s"), ("think_s", "session")):  # fmt: skip
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
            before = self._before(row)
            if before is not None:
                time = self.recorded.times[before] if self.recorded.times else None
            elif when in self.places:
                seconds = self.recorded.seconds(when, row[self.places[when]])
                time = None if seconds is None else picoseconds(seconds)
            self._same_run(row)
            prompt = self._prompt(row) if before is None else self._turn(row, before)
            think = (
                None
                if before is None
                else self.recorded.seconds("think_s", self._of(row, "think_s"))
            )
            output = self.recorded.output("output_tokens", row[self.places["output_tokens"]])
            priority = self._priority(row)
            times = self._measured(row)
            if before is not None and think is None:
                continue
            if prompt and output and (time is not None or when not in self.places):
                self.recorded.add(prompt, output, time, priority)
                if before is not None and think is not None:
                    place = len(self.recorded.requests) - 1
                    self.recorded.after[place] = (before, picoseconds(think))
                if self._of(row, "session"):
                    self.last[self._of(row, "session")] = len(self.recorded.requests) - 1
                if times:
                    self.recorded.measured.append(times)
            if self.recorded.is_full:
                break
        if "prefix" not in self.places:
            self.recorded.note(TURNS_ALONE if self.recorded.after else NO_CONTENTS)

    def _of(self, row: list[str], name: str) -> str:
        return row[self.places[name]] if name in self.places else ""

    def _before(self, row: list[str]) -> int | None:
        """The request whose answer a row waits for."""
        name = self._of(row, "session")
        think = self._of(row, "think_s")
        if name in self.last and name:
            return self.last[name]
        if think:
            message = f"{think!r} for the first request of a session"
            self.recorded.fault("think_s", message, "nothing there, and a name in session")
        return None

    def _turn(self, row: list[str], before: int) -> Pieces:
        """The conversation so far and new tokens; none of a row with a fault."""
        tokens = self.recorded.count("input_tokens", self._of(row, "input_tokens"))
        other = self.recorded.requests[before]
        history = (*other.prompt, (-1 - before, other.output))
        length = other.tokens + other.output
        if tokens is None:
            return ()
        if self._of(row, "arrival_s") or self._of(row, "t_s"):
            self.recorded.fault("session", "a time for a request that waits for an answer", "none")
            return ()
        if len(history) > 2 * MOST_TURNS:
            self.recorded.fault("session", "too many requests", f"at most {MOST_TURNS}")
            return ()
        if self._of(row, "prefix"):
            self.recorded.fault("prefix", "a turn begins with its conversation", "nothing there")
            return ()
        if tokens <= length:
            message = f"a prompt of {tokens} tokens after a conversation of {length}"
            self.recorded.fault("input_tokens", message, "the whole prompt, with the conversation")
            return ()
        return (*history, (self.recorded.fresh(), tokens - length))

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
