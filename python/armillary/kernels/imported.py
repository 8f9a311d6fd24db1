"""Tables of measured kernels as a platform file and the file of kernels that it names."""

from __future__ import annotations

import json
import math
import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import InputError, Problem
from ..platform import Platform
from .measured_file import MeasuredFile, Rows, made
from .tables import TABLES, Left, known, plain, read
from .times import formula_us, origin


@dataclass(frozen=True, slots=True)
class Imported:
    """The measured kernels of tables, for one platform."""

    file: MeasuredFile
    software: tuple[str, ...]
    """Engines and their versions."""
    left: tuple[tuple[str, int], ...]
    """Why rows are left out, and how many; most first."""


def is_table(path: str) -> bool:
    """Whether a file is a table by its name, as every CSV file is."""
    return path.lower().endswith((".csv", ".csv.gz"))


def import_tables(paths: Sequence[str], platform: Platform, gpu: str | None = None) -> Imported:
    """The measured kernels of the platform's GPU, or of the one that the tables call `gpu`.

    Raises:
        InputError: no such table, none of its rows is of the GPU, or the platform has no formulas.
    """
    npu, generation = origin(platform)
    if generation is None:
        allowed = "a platform that extends one with them, such as dgx-h100"
        said = "has no npu.kernels, the formulas that times are interpolated with"
        raise InputError([Problem(platform.name, "", said, allowed)])
    wanted = _gpu(gpu if gpu is not None else npu)
    if not wanted:
        said = f"no name of a GPU: {gpu!r}"
        raise InputError([Problem("", "--gpu", said, "a name such as h100")])
    left: Counter[str] = Counter()
    others: set[str] = set()
    software: set[str] = set()
    kernels = []

    def named(text: str) -> str | None:
        if _gpu(text) == wanted:
            return known(text) or wanted
        others.add(_gpu(text))
        return None

    for path in paths:
        for row in read(path, TABLES, named, system=wanted):
            if isinstance(row, Left):
                left[row.reason.replace("no preset for ", "measured on ", 1)] += 1
            else:
                kernels.append((row.shape, row.us))
                software.add(row.software)
    if not kernels:
        raise InputError([_none(paths[0], wanted, others, left)])
    file = made(npu, ", ".join(Path(path).name for path in paths), kernels)
    kept = []
    for rows in file.kernels:
        reason = _refused(platform, rows)
        if reason is None:
            kept.append(rows)
        else:
            left[reason] += len(rows.us)
    if not kept:
        raise InputError([_none(paths[0], wanted, others, left)])
    found = MeasuredFile(file.schema, file.npu, file.source, tuple(kept))
    return Imported(found, tuple(sorted(software)), tuple(left.most_common()))


def overlay(platform: str, out: str, kernels: str) -> str:
    """The text of a platform file at `out`: the platform with the measured kernels of the file
    `kernels` next to it."""
    parent = platform
    if os.path.isfile(platform):  # noqa: PTH113
        parent = os.path.relpath(platform, Path(out).resolve().parent)
        parent = parent if os.sep in parent else os.path.join(".", parent)  # noqa: PTH118
    return (
        f"extends: {json.dumps(parent, ensure_ascii=False)}\n"
        f"npu:\n  kernels:\n    measured: {json.dumps(kernels, ensure_ascii=False)}\n"
    )


def _gpu(text: str) -> str:
    """The GPU that a text names: one that presets have, or its first word."""
    return known(text) or plain(text).partition("_")[0]


def _none(path: str, wanted: str, others: set[str], left: Counter[str]) -> Problem:
    """That no row can be used, and the way out."""
    if others:
        names = ", ".join(sorted(others)[:10])
        said = f"no row was measured on {wanted}; the GPUs of the table: {names}"
        return Problem(path, "", said, "a platform with such a GPU, or --gpu NAME for its rows")
    reasons = "; ".join(reason for reason, _ in left.most_common(3)) or "it has no rows"
    return Problem(path, "", f"no row can be used: {reasons}", "measured kernels with a formula")


def _refused(platform: Platform, rows: Rows) -> str | None:
    """Why the formula times none of the first kernels of the rows."""
    first = [numbers for numbers, _ in rows.times()][:: max(1, len(rows.us) // 8)]
    if any(math.isfinite(us) for us in formula_us(platform, rows, first)):
        return None
    words = ", ".join(rows.words.values())
    return f"no formula of {rows.kind}{': ' * bool(words)}{words}"
