"""The memory that this process may still take, which is the least that its limits, its container
and the machine leave; and an estimate of a run's time.

`ARMILLARY_MEMORY` (`64 GiB`, `500 MB`, `unlimited`) replaces what is found, for users who know
better. Sources: getrlimit(2), cgroups(7) (versions 1 and 2), proc_meminfo(5)."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import re
import resource
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

from .errors import InputError, Problem
from .units import counted

VARIABLE = "ARMILLARY_MEMORY"
_UNITS = {
    "": 1,
    "k": 10**3,
    "m": 10**6,
    "g": 10**9,
    "t": 10**12,
    "ki": 2**10,
    "mi": 2**20,
    "gi": 2**30,
    "ti": 2**40,
}
_AMOUNT = re.compile(r"\s*([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([kmgt]i?)?b?\s*", re.IGNORECASE)
_PACE = 3_000_000
"""Events that a core handles in a second."""
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
"""Options of mallopt(3): the free bytes at the heap's end from which it shrinks, and the size of
blocks from which each has pages of its own. glibc before 2.35 allows 32 MiB for the second."""
_FRESH = 0.05
"""Seconds for which what is found holds. A process fills some 100 MB in that time."""
_HELP = "an amount such as 64 GiB, or unlimited"


def available() -> int | None:
    """Bytes that may still be taken, `None` where nothing bounds them. Raises `InputError` for a
    wrong variable."""
    wanted = os.environ.get(VARIABLE, "")
    if wanted:
        return _wanted(wanted)
    return _left(int(time.monotonic() / _FRESH))


@functools.lru_cache(maxsize=1)
def _left(_tick: int) -> int | None:
    """Memory that the limits leave, read once in each tick: a small simulation needs less time than
    reading them."""
    return min((max(0, bound) for bound in _bounds()), default=None)


_FEW = 64
"""A limit on open files that is small."""


def addresses() -> int | None:
    """Bytes of address space that may still be taken under `ulimit -v`; `None` without a limit."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else max(0, limit - _held())


def descriptors() -> int | None:
    """Files that may still be opened under `ulimit -n`; `None` where that is not known."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    try:
        opened = len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - only their number counts
    except OSError:  # no Linux, or no descriptor left to look with
        return 0 if limit < _FEW else None
    return None if limit == resource.RLIM_INFINITY else max(0, limit - opened)


def is_given() -> bool:
    """Whether the user has said how much memory may be taken."""
    return bool(os.environ.get(VARIABLE))


def keep_freed_memory() -> bool:
    """Makes this process keep the memory that it frees, for the next request of that size.

    glibc gives large blocks back to the operating system at once. A training asks for the same
    blocks again in each step, and the kernel fills every page of them with zeros first. Returns
    whether that is so now: other C libraries have no such switch. Source: mallopt(3)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    kept = mallopt(_MMAP_THRESHOLD, 2**30) or mallopt(_MMAP_THRESHOLD, 2**25)
    return bool(kept and mallopt(_TRIM_THRESHOLD, 2**31 - 1))


def warn_of_long_run(ranks: int, events: int, reason: str) -> None:
    """Warns before a run of more than a minute. `reason`: why one rank does not do for all."""
    seconds = events / _PACE
    amount = f"{seconds / 60:,.0f} minutes" if seconds < 7200 else f"{seconds / 3600:,.0f} hours"
    text = (
        f"this run simulates {counted(ranks, 'rank')} and handles at least "
        f"{counted(events, 'event')}, which takes about {amount}"
    )
    if reason:
        text += f"; one rank can't stand for all: {reason}"
    warnings.warn(
        f"{text}; fewer chunks, the analytical backend or a smaller machine take less", stacklevel=2
    )


def _wanted(text: str) -> int | None:
    if text.strip().lower() == "unlimited":
        return None
    found = _AMOUNT.fullmatch(text)
    if found is None:
        raise InputError([Problem("", VARIABLE, f"invalid amount of memory: {text[:80]!r}", _HELP)])
    return int(float(found[1]) * _UNITS[(found[2] or "").lower()])


def _bounds() -> Iterator[int]:
    """Memory that each limit leaves, as far as this system reports it."""
    if (left := addresses()) is not None:
        yield left
    yield from _groups()
    with contextlib.suppress(OSError, KeyError, ValueError):
        yield _fields(Path("/proc/meminfo"))["MemAvailable:"] * 1024
        return
    with contextlib.suppress(OSError, ValueError):  # no Linux
        yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def _held() -> int:
    """Address space of this process, bytes; 0 where it is not known."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return 0


def _groups() -> Iterator[int]:
    """Memory that the control groups above this process leave."""
    lines: list[str] = []
    with contextlib.suppress(OSError):
        lines = Path("/proc/self/cgroup").read_text().splitlines()
    for line in lines:
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if not controllers:
            yield from _above(
                Path("/sys/fs/cgroup"), path, ("memory.max", "memory.current", "inactive_file")
            )
        elif "memory" in controllers.split(","):
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
            yield from _above(Path("/sys/fs/cgroup/memory"), path, names)


def _above(root: Path, path: str, names: tuple[str, str, str]) -> Iterator[int]:
    """Memory left in a group and in those around it; in a container the outer ones can't be
    seen."""
    limit, held, cache = names
    inner = root / path.lstrip("/")
    for folder in (inner, *inner.parents):
        with contextlib.suppress(OSError, ValueError):
            text = (folder / limit).read_text().strip()
            if text != "max":
                # Cached data is given up where memory is needed.
                reclaimed = _fields(folder / "memory.stat").get(cache, 0)
                yield int(text) - int((folder / held).read_text()) + reclaimed
        if folder == root:
            return


def _fields(path: Path) -> dict[str, int]:
    words = (line.split() for line in path.read_text().splitlines())
    return {line[0]: int(line[1]) for line in words if len(line) > 1}
