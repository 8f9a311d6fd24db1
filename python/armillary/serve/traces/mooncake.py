"""Traces with hashes of blocks: Mooncake's, AIPerf's and Bailian's. Each line is a JSON object.

| | Mooncake, AIPerf | Bailian |
| --- | --- | --- |
| recognized by | `input_length` or `hash_ids` | `chat_id` in addition |
| `timestamp` | ms | s |
| tokens of a block | 512 | 16 |

`hash_ids` name the blocks of a prompt; the last one may be partial. Equal names at equal prefixes
are equal tokens. Sources: kvcache-ai/Mooncake, FAST25-release/README.md and traces;
ai-dynamo/aiperf, docs/benchmark-modes/trace-replay.md (lines without `hash_ids`);
triton-inference-server/perf_analyzer, genai-perf/docs/replaying_datasets.md (lines without
`input_length`); alibaba-edu/qwen-bailian-usagetraces-anon, README.md."""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from typing import Any

from ...declared import shown
from .format import NO_CONTENTS, Format
from .prefixes import MOST_IDENTITY, Prefixes
from .recorded import MOST_SECONDS, Recorded, number, picoseconds
from .source import Source

BLOCK = 512
"""Tokens of a block of Mooncake's traces."""
BAILIAN_BLOCK = 16
_TEXTS = ("text", "texts", "text_input", "messages", "payload", "prompt")
_KNOWN = {
    "timestamp", "input_length", "output_length", "hash_ids", "session_id", "type", "extra",
    "chat_id", "parent_chat_id", "turn",
}  # fmt: skip


class _Lines:
    """Lines of one file."""

    def __init__(self, source: Source, recorded: Recorded) -> None:
        self.source, self.recorded = source, recorded
        is_bailian = "chat_id" in source.names
        self.unit, self.second = (BAILIAN_BLOCK, 1.0) if is_bailian else (BLOCK, 1000.0)
        self.prefixes = Prefixes(self.unit, recorded.fresh)
        self.has_times = "timestamp" in source.names
        self.has_blocks = False

    def read(self) -> None:
        """Reads all lines."""
        for row in self.source.objects():
            self._check(row)
            if not self.recorded.require(row, "output_length"):
                continue
            time = self._time(row)
            output = self.recorded.output("output_length", row["output_length"])
            blocks = self._blocks(row)
            tokens = self._tokens(row, blocks)
            if blocks is None or not tokens or not output:
                continue
            if time is None and self.has_times:
                continue
            prompt = self.prefixes.pieces(blocks, tokens)
            self.recorded.add(prompt, output, time)
            if self.recorded.is_full:
                break
        if self.has_blocks:
            self.recorded.note(
                "answers that later prompts repeat are not found in the cache: "
                "the file names blocks of prompts alone"
            )
        else:
            self.recorded.note(NO_CONTENTS)

    def _check(self, row: Mapping[str, Any]) -> None:
        place = f"line {self.source.line}"
        texts = [key for key in _TEXTS if row.get(key) is not None]
        if texts:
            message = "is a text, whose tokens are not known"
            raise self.source.fault(f"{place}: {texts[0]}", message, "input_length, in tokens")
        if row.get("delay") is not None:
            message = "the time follows from the answer before, which is not modeled"
            raise self.source.fault(f"{place}: delay", message, "timestamp")
        for key in row:
            if key not in _KNOWN and row[key] is not None:
                allowed = ", ".join(sorted(_KNOWN))
                raise self.source.fault(place, f"unknown key {key[:80]!r}", allowed)

    def _time(self, row: Mapping[str, Any]) -> int | None:
        given = row.get("timestamp")
        if (given is not None) != self.has_times:
            self.recorded.fault("timestamp", "is not in all lines", "in all or none")
            return None
        if given is None:
            return None
        found = number(given) if not isinstance(given, str) else math.nan
        if not 0 <= found / self.second <= MOST_SECONDS:
            unit = "ms" if self.second > 1 else "s"
            self.recorded.fault("timestamp", f"invalid time: {shown(given)}", f"{unit}, 0 or more")
            return None
        return picoseconds(found / self.second)

    def _blocks(self, row: Mapping[str, Any]) -> list[int] | None:
        """Names of blocks; none where the line has none; `None` for a fault."""
        given = row.get("hash_ids")
        if given is None:
            return []
        self.has_blocks = True
        if not isinstance(given, list):
            self.recorded.fault("hash_ids", f"{shown(given)} is not a list", "whole numbers")
            return None
        for each in given:
            if type(each) is not int or not -MOST_IDENTITY <= each < MOST_IDENTITY:
                message = f"{shown(each)} is not a whole number of 64 bits"
                self.recorded.fault("hash_ids", message, "whole numbers")
                return None
        return given

    def _tokens(self, row: Mapping[str, Any], blocks: list[int] | None) -> int | None:
        if blocks is None:
            return None
        given = row.get("input_length")
        if given is None:
            if not blocks:
                self.recorded.fault("input_length", "is missing", "a number of tokens")
                return None
            given = len(blocks) * self.unit
        tokens = self.recorded.count("input_length", given, 0)
        if tokens == 0:
            self.recorded.leave_out("with an empty prompt")
        if tokens and blocks and not tokens // self.unit <= len(blocks) <= -(-tokens // self.unit):
            message = f"{len(blocks)} blocks of {self.unit} for {tokens} tokens"
            need = -(-tokens // self.unit)
            self.recorded.fault("hash_ids", message, f"{need} blocks, the last one partial or left")
            return None
        return tokens


def _read(source: Source, recorded: Recorded) -> None:
    _Lines(source, recorded).read()


def _recognises(names: Set[str]) -> bool:
    return bool({"input_length", "hash_ids"} & names) or {"timestamp", "output_length"} <= names


FORMAT = Format("trace of Mooncake, AIPerf or Bailian", ("lines",), _recognises, _read)
