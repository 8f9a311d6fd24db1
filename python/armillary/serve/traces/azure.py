"""Traces of Azure's language models: CSV with TIMESTAMP, ContextTokens, GeneratedTokens.

Source: Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md and ...2024.md (CC BY 4.0). Times
are of days and have up to 7 decimals; those of 2024 end with the time zone."""

from __future__ import annotations

import datetime
import functools
import re

from ..load import PICOSECONDS
from .format import NO_CONTENTS, Format
from .recorded import Recorded
from .source import Source

_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[ T](\d\d):(\d\d):(\d\d)(?:\.(\d{1,12}))?(Z|[+-]\d\d:\d\d)?", re.ASCII
)
_COLUMNS = ("TIMESTAMP", "ContextTokens", "GeneratedTokens")
_ALLOWED = "2023-11-16 18:15:46.6805900, with or without +00:00"


def _read(source: Source, recorded: Recorded) -> None:
    if "NumImages" in source.names:
        message = "requests have images, which are not modeled"
        raise source.fault("line 1: NumImages", message, "a trace of text")
    missing = [name for name in _COLUMNS if name not in source.names]
    if missing:
        raise source.fault("line 1", f"lacks the column {missing[0]}", ", ".join(_COLUMNS))
    unknown = [name for name in source.names if name not in _COLUMNS]
    if unknown:
        message = f"unknown column {unknown[0]!r}"
        raise source.fault("line 1", message, ", ".join(_COLUMNS))
    when, context, generated = (source.names.index(name) for name in _COLUMNS)
    zones: set[str | None] = set()
    for row in source.rows():
        found = _TIME.fullmatch(row[when])
        day = _day(found[1]) if found else None
        if found is None or day is None or int(found[2]) > 23 or int(found[3]) > 59:
            recorded.fault("TIMESTAMP", f"invalid time: {row[when]!r}", _ALLOWED)
            continue
        zones.add(found[6])
        if len(zones) > 1:
            raise source.fault(f"line {source.line}: TIMESTAMP", "another time zone", "one zone")
        seconds = (day * 24 + int(found[2])) * 3600 + int(found[3]) * 60 + int(found[4])
        time = seconds * PICOSECONDS + int((found[5] or "").ljust(12, "0"))
        prompt = recorded.count("ContextTokens", row[context], 0)
        output = recorded.output("GeneratedTokens", row[generated])
        if prompt == 0:
            recorded.leave_out("with an empty prompt")
        elif prompt and output:
            recorded.add(((recorded.fresh(), prompt),), output, time)
        if recorded.is_full:
            break
    recorded.note(NO_CONTENTS)


@functools.lru_cache(maxsize=64)
def _day(text: str) -> int | None:
    """Number of a day; `None` for one that the calendar does not have."""
    try:
        return datetime.date.fromisoformat(text).toordinal()
    except ValueError:
        return None


FORMAT = Format(
    "trace of Azure", ("csv",), lambda names: {"TIMESTAMP", "ContextTokens"} <= names, _read
)
