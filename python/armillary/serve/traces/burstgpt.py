"""BurstGPT: CSV with Timestamp (seconds), Model, Request tokens, Response tokens.

Source: vLLM 0.19.0, `BurstGPTDataset` of vllm/benchmarks/datasets.py, which leaves out requests
without response tokens, as failed, too. The files of 2024 and later have sessions."""

from __future__ import annotations

from .format import NO_CONTENTS, Format
from .recorded import Recorded, picoseconds
from .source import Source

_COLUMNS = ("Timestamp", "Request tokens", "Response tokens")
_OTHERS = {"Model", "Total tokens", "Log Type", "Session ID", "Elapsed time"}


def _read(source: Source, recorded: Recorded) -> None:
    unknown = [name for name in source.names if name not in _COLUMNS and name not in _OTHERS]
    if unknown:
        message = f"unknown column {unknown[0]!r}"
        raise source.fault("line 1", message, ", ".join((*_COLUMNS, *sorted(_OTHERS))))
    when, request, response = (source.names.index(name) for name in _COLUMNS)
    which = source.names.index("Model") if "Model" in source.names else None
    models: dict[str, None] = {}
    for row in source.rows():
        time = recorded.seconds("Timestamp", row[when])
        prompt = recorded.count("Request tokens", row[request], 0)
        output = recorded.output("Response tokens", row[response])
        if which is not None and len(models) < 10:
            models[row[which][:80]] = None
        if prompt == 0:
            recorded.leave_out("with an empty prompt")
        elif time is not None and prompt and output:
            recorded.add(((recorded.fresh(), prompt),), output, picoseconds(time))
        if recorded.is_full:
            break
    if len(models) > 1:
        recorded.note(f"requests to {', '.join(models)} are taken as requests to one model")
    recorded.note(NO_CONTENTS)


FORMAT = Format("BurstGPT", ("csv",), lambda names: {*_COLUMNS} <= names, _read)
