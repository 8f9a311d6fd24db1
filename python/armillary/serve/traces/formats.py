"""The table of formats, and the reading of a file of any of them."""

from __future__ import annotations

import os

from ...errors import InputError, Problem
from ..load import Load
from . import aiperf, azure, burstgpt, llmservingsim, mooncake, plain, vllm
from .format import Format
from .recorded import Recorded
from .source import Source, open_source

FORMATS: tuple[Format, ...] = (
    azure.FORMAT, burstgpt.FORMAT, plain.FORMAT, mooncake.FORMAT, llmservingsim.FORMAT,
    vllm.FORMAT, aiperf.FORMAT, aiperf.TEXTS,
)  # fmt: skip
"""Formats in the order in which they are tried."""
_COLUMNS = (
    "a table with arrival_s, input_tokens and output_tokens, or a trace of Azure, BurstGPT, "
    "Mooncake, AIPerf, Bailian, LLMServingSim or `vllm bench serve --save-detailed`"
)
_TEXT_KEYS = {"conversations", "prompt", "messages", "text", "text_input", "texts"}
"""Keys of data sets of texts, such as ShareGPT's."""


def read_load(
    path: str | os.PathLike[str],
    *,
    limit: int | None = None,
    rate: float | None = None,
    scale: float = 1.0,
    concurrency: int | None = None,
) -> Load:
    """The requests of a recorded trace, or of a benchmark's results, with measured times where the
    file has them.

    The format is recognized by its content; gzip is unpacked. `limit` takes the first requests: of
    a trace in the order of the file, of results in the order of their starts. `scale` stretches the
    times, and `rate` does so until that number arrives in a second. With `concurrency` the times
    are left aside, and that number of requests is there at any time.

    Raises:
        InputError: a file that can't be read or is of no known format, with line and column; a file
            without times and without `concurrency`; a setting out of range.
    """
    file = os.fspath(path)
    _check(limit, rate, scale, concurrency)
    source = open_source(file)
    try:
        recorded = Recorded(source, limit)
        _format(source).read(source, recorded)
    finally:
        source.close()
    return recorded.finish(rate=rate, scale=scale, concurrency=concurrency)


def is_load(path: str | os.PathLike[str]) -> bool:
    """Whether a file looks like requests that others recorded."""
    try:
        source = open_source(os.fspath(path))
        try:
            _format(source)
        finally:
            source.close()
    except InputError:
        return False
    return True


def _format(source: Source) -> Format:
    names = {*source.names}
    for each in FORMATS:
        if source.kind in each.kinds and each.recognises(names):
            return each
    if source.kind != "csv" and names & _TEXT_KEYS:
        message = "holds texts, whose numbers of tokens are not known"
        raise source.fault("", message, _COLUMNS)
    what = "columns" if source.kind == "csv" else "keys"
    listed = ", ".join(name[:40] for name in source.names[:8]) or "none"
    raise source.fault("line 1", f"has the {what} of no known format: {listed}", _COLUMNS)


def _check(limit: int | None, rate: float | None, scale: float, concurrency: int | None) -> None:
    problems = []
    for key, value, is_sound, allowed in (
        ("limit", limit, limit is None or limit >= 1, "a count from 1"),
        ("rate", rate, rate is None or 1e-6 <= rate <= 1e9, "requests a second, above 0"),
        ("scale", scale, 1e-6 <= scale <= 1e6, "a factor from 0.000001 to 1000000"),
        ("concurrency", concurrency, concurrency is None or concurrency >= 1, "a count from 1"),
    ):
        if not is_sound:
            problems.append(Problem("", key, f"invalid value: {value!r}", allowed))
    if rate is not None and scale != 1:
        problems.append(Problem("", "rate", "rate and scale both change the times", "one of them"))
    if problems:
        raise InputError(problems)
