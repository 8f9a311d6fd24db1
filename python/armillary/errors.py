"""Errors, by kind. `_core` and the rest of the package raise them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem of the input, described so that the user can fix it."""

    file: str
    """File as the caller named it; empty when the fault is in no file."""
    place: str
    """Line, field, node or rank: `line 3`, `topology[1]`, `rank 4 node 17`."""
    message: str
    """Description of the fault, with the value."""
    help: str = ""
    """Allowed values; empty when the message says it all."""

    def __str__(self) -> str:
        where = "".join(f"{part}: " for part in (self.file, self.place) if part)
        return where + self.message + (f" (allowed: {self.help})" if self.help else "")


_NO_MEMORY = re.compile(
    "failed to map segment|annot allocate memory|can't allocate memory|not enough memory|bad_alloc"
    "|out of memory|can't start new thread|could not create a primitive"
)
"""Texts of errors of the system and of libraries where memory is short."""


def out_of_memory(error: BaseException) -> Problem | None:
    """The problem of an error for want of memory; `None` for other errors. Libraries that don't fit
    are errors of an import, and those of PyTorch are a `RuntimeError`."""
    short = isinstance(error, MemoryError) or (
        isinstance(error, OSError | ImportError | RuntimeError | SystemError)
        and _NO_MEMORY.search(str(error)) is not None
    )
    if not short:
        return None
    said = "needs more memory than is available"
    detail = " ".join(str(error).split())[:_DETAIL]
    return Problem("", "", f"{said}: {detail}" if detail else said, "more memory (`ulimit -v`)")


_DETAIL = 200


class ArmillaryError(Exception):
    """Base of everything Armillary raises on purpose. `problems` lists every fault found, not only
    the first."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        super().__init__("\n".join(map(str, problems)))
        self.problems = list(problems)


class InputError(ArmillaryError, ValueError):
    """The input is wrong: a file, a setting, an argument."""


class ImpossibleError(InputError):
    """Each value is allowed, but together they can't be: degrees that don't divide what they cut,
    another number of ranks than there are NPUs."""


class StalledError(ArmillaryError):
    """The input could be read, but the run stalled: operations wait for each other, or for
    something that never happens.

    `problems` names the waiting operations, what they wait for, and the cycle if there is one.
    """


class TrainingError(ArmillaryError):
    """The input could be read, but training failed: a loss that is not a number, a process that
    ended, processes that disagree."""


class LostContactError(TrainingError):
    """Another process can't be reached. It ended, or it waits for something else; what happened
    there is the reason."""


def flag(option: str) -> str:
    """`--global-batch` of `global_batch`."""
    return "--" + option.replace("_", "-")
