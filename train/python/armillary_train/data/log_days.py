"""Days of click logs: the order of files, and which samples are held out.

The order is that of time. Held out are the last days: of several files, the last ones; of a single
file, its last sevenths, because Criteo's Kaggle set is seven days in one file."""

from __future__ import annotations

from pathlib import Path

from armillary.errors import InputError, Problem
from armillary.units import counted

DAYS_OF_A_FILE = 7
"""Days of a single file."""


def train_lines(count: int, days: int, path: Path) -> int:
    """Lines of a single file of `count` lines that are to train on: all but the last `days`
    sevenths. Raises `InputError`."""
    if days >= DAYS_OF_A_FILE:
        said = f"{days} of the {DAYS_OF_A_FILE} parts of a single file are held out"
        raise InputError([Problem(str(path), "--held-out", said, f"at most {DAYS_OF_A_FILE - 1}")])
    train = count * (DAYS_OF_A_FILE - days) // DAYS_OF_A_FILE
    if not 0 < train < count:
        said = f"has {counted(count, 'line')}, which is too few to hold some out"
        raise InputError([Problem(str(path), "", said, f"at least {DAYS_OF_A_FILE} lines")])
    return train
