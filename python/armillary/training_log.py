"""Step times in a log that a training framework printed.

| framework | line | source |
| --- | --- | --- |
| Megatron-LM | `elapsed time per iteration (ms): 1147.6` | megatron/training/training.py |
| NeMo | `train_step_timing in s: 8.9` | nemo/utils/exp_manager.py (`TimingCallback`) |
| torchtitan | `step: 10 ... tps: 7,208` | torchtitan/components/metrics.py |
| MLPerf Training | `:::MLLOG {...}` | `mlperf_log.py` |

torchtitan prints tokens per second of each device: `step's tokens / (devices x time)`. They become
times where the number of tokens is known. Not here: what follows from the steps
(`explain/measured_log.py`, `layouts/measured.py`)."""

from __future__ import annotations

import os
import re
import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from . import documents, mlperf_log
from .errors import InputError, Problem

_NUMBER = r"([0-9][0-9,]{0,20}(?:\.[0-9]{0,20})?(?:[eE][+-]?[0-9]{1,3})?)"
_MEGATRON = re.compile(rf"elapsed time per iteration \(ms\): *{_NUMBER}")
_NEMO = re.compile(rf"train_step_timing in s[:=] *{_NUMBER}")
_TITAN = re.compile(
    rf"(?<!validate )\bstep: *([0-9]{{1,12}})\b.{{1,400}}?\b(?:tps|wps): *{_NUMBER}"
)
_KINDS = (_MEGATRON, _NEMO, _TITAN)
_ITERATION = re.compile(r"\biteration +([0-9]{1,12})/")
_BATCH = re.compile(r"\bglobal batch size: *([0-9]{1,12})\b")
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")
_WIDTH = 4000
"""Letters of a line that are read."""
_LONGEST = 1e6
"""Seconds of a step."""
ALLOWED = (
    "lines with 'elapsed time per iteration (ms): ', 'train_step_timing in s: ', 'step: ' and "
    "'tps: ', or ':::MLLOG '"
)


@dataclass(frozen=True, slots=True)
class LoggedStep:
    """A step of a log."""

    time_s: float
    number: int | None = None
    """Number of the step, if the log states one."""
    batch: int | None = None
    """Samples of the step, if the log states them."""


@dataclass(frozen=True, slots=True)
class TrainingLog:
    """Steps of a log in its order."""

    file: str
    framework: str
    steps: tuple[LoggedStep, ...]
    notes: tuple[str, ...] = ()
    """Remarks about the steps."""

    def steady(self) -> tuple[LoggedStep, ...]:
        """The steps without the first one, which warms up; one step that is alone."""
        return self.steps[1:] or self.steps

    def median_s(self) -> float:
        """The median time of the steady steps."""
        return statistics.median(step.time_s for step in self.steady())


def is_log(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a log of training, not JSON. Raises `InputError` for any other file."""
    allowed = f"what armillary run --json wrote, or {ALLOWED}"
    text = documents.read_bytes(path, allowed).decode("utf-8", "replace")
    if text.lstrip("\ufeff \t\r\n")[:1] == "{":
        return False
    plain = _COLOUR.sub("", text)
    if not any(pattern.search(plain) for pattern in (*_KINDS, mlperf_log.LINE)):
        said = "is neither a result nor a log of training"
        raise InputError([Problem(os.fspath(path), "", said, allowed)])
    return True


def read(path: str | os.PathLike[str], device_tokens: float | None = None) -> TrainingLog:
    """The steps of a log. `device_tokens` is the number of tokens of a step for each device.

    Raises `InputError` for a file without steps, for a time that is not one, and for a log of
    torchtitan without `device_tokens`."""
    name = os.fspath(path)
    text = documents.read_text(name, "a log of training")
    lines = [_COLOUR.sub("", line[:_WIDTH]) for line in text.splitlines()]
    for framework, found in (
        ("Megatron-LM", list(_megatron(lines))),
        ("NeMo", [LoggedStep(_float(each[1])) for line in lines for each in _NEMO.finditer(line)]),
        ("torchtitan", list(_titan(lines, name, device_tokens))),
    ):
        if found:
            return _checked(name, framework, found)
    if mlperf_log.LINE.search(text):
        run = mlperf_log.read(name, text.splitlines())
        steps = [LoggedStep(each, None, run.batch) for each in run.times]
        return _checked(name, "MLPerf Training", steps, run.notes)
    raise InputError([Problem(name, "", "states no time of a step", ALLOWED)])


def _checked(
    name: str, framework: str, steps: list[LoggedStep], notes: tuple[str, ...] = ()
) -> TrainingLog:
    """The log of these steps. Raises `InputError` for a time that no step has."""
    for step in steps:
        if not 0 < step.time_s <= _LONGEST:
            said = f"a step of {step.time_s:g} s"
            allowed = f"above 0, up to {_LONGEST:,.0f} s"
            raise InputError([Problem(name, _place(step), said, allowed)])
    return TrainingLog(name, framework, tuple(steps), notes)


def _megatron(lines: list[str]) -> Iterator[LoggedStep]:
    for line in lines:
        if time := _MEGATRON.search(line):
            number, batch = _ITERATION.search(line), _BATCH.search(line)
            yield LoggedStep(
                _float(time[1]) / 1e3,
                int(number[1]) if number else None,
                int(batch[1]) if batch else None,
            )


def _titan(lines: list[str], name: str, device_tokens: float | None) -> Iterator[LoggedStep]:
    """Every rank may print: the first line of each step counts."""
    seen = set()
    for line in lines:
        if (found := _TITAN.search(line)) and found[1] not in seen:
            if device_tokens is None:
                said = "states tokens per second, and the tokens of a step are not known"
                raise InputError([Problem(name, f"step {found[1]}", said, "step: SECONDS")])
            seen.add(found[1])
            rate = _float(found[2])
            yield LoggedStep(device_tokens / rate if rate else 0.0, int(found[1]))


def _place(step: LoggedStep) -> str:
    return "" if step.number is None else f"step {step.number}"


def _float(text: str) -> float:
    return float(text.replace(",", ""))
