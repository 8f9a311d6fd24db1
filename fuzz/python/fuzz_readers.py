"""fuzz_readers.py [--seconds S] [--seed N] [--list] [TARGET...]: damaged files for every reader
that is written in Python.

A reader may take a file or refuse it (`InputError`, `StalledError`). Any other exception, the death
of the process, more than 20 s of its time or more memory than the limit below is a fault: the files
stay in fuzz/artifacts, a traceback is printed, and the exit code is 1. `fuzz_readers.py --again
FOLDER TARGET` reads such files once more. No coverage is measured: damage by value finds what
breaks these readers, and needs nothing but Python."""

from __future__ import annotations

import argparse
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from types import FrameType
from zlib import crc32

from mutate import damaged
from target import ROOT, Files, Target
from targets import TARGETS

from armillary.errors import InputError, StalledError

MEMORY = 9 * 2**30
"""Bytes of address space. PyTorch takes some of them for its libraries."""
_CPU_S = 20


class TooSlow(BaseException):
    """A reader has taken more of the processor's time than any file deserves."""


def attempt(target: Target, chance: random.Random, folder: Path) -> str:
    """Reads one damaged case in `folder`: `taken` or `refused`. Raises whatever else the reader
    does."""
    files = chance.choice(_cases(target))
    wanted = [name for name in files if not name.endswith(target.whole)]
    victim = chance.choice(wanted)
    written = {
        name: damaged(data, chance) if name == victim else data for name, data in files.items()
    }
    for name, data in written.items():
        (folder / name).write_bytes(data)
    return again(target, folder, written)


def again(target: Target, folder: Path, files: Files) -> str:
    """Reads the files in `folder` within the limits."""
    signal.signal(signal.SIGPROF, _stop)
    signal.setitimer(signal.ITIMER_PROF, _CPU_S)
    try:
        target.read(folder, files)
    except (InputError, StalledError):
        return "refused"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "taken"


_KNOWN: dict[str, list[Files]] = {}


def _cases(target: Target) -> list[Files]:
    if target.name not in _KNOWN:
        _KNOWN[target.name] = target.cases()
    return _KNOWN[target.name]


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise TooSlow(f"more than {_CPU_S} s")


def _child(target: Target, seconds: float, seed: int, current: Path) -> None:
    """Fuzzes until the time is over; the case at hand lies in `current`."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    outcomes: Counter[str] = Counter()
    end = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end:
        folder = current / "case"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        outcomes[attempt(target, random.Random(f"{seed} {target.name} {number}"), folder)] += 1
        number += 1
    said = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
    print(
        f"fuzz: python {target.name} ran {seconds:g} s without a fault: {number} inputs, {said}",
        flush=True,
    )


def _run(target: Target, seconds: float, seed: int) -> bool:
    """Whether a target came through, in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        current = Path(scratch)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                _child(target, seconds, seed, current)
                status = 0
            except BaseException:  # whatever it is, it is what we look for
                traceback.print_exc()
            finally:
                sys.stderr.flush()
                os._exit(status)
        _, status = os.waitpid(child, 0)
        if status == 0:
            return True
        _keep(target, current / "case")
        return False


def _keep(target: Target, case: Path) -> None:
    files = sorted(case.glob("*")) if case.is_dir() else []
    content = b"".join(file.read_bytes() for file in files if file.is_file())
    name = f"python-{target.name}-{crc32(content):08x}"
    kept = ROOT / "fuzz/artifacts" / name
    shutil.rmtree(kept, ignore_errors=True)
    if case.is_dir():
        shutil.copytree(case, kept)
    command = f"fuzz/python/fuzz_readers.py --again {kept} {target.name}"
    print(f"fuzz: python {target.name} failed; again: {command}", file=sys.stderr)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=10, help="for each target")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--again", type=Path, help="a folder of files to read once more")
    parser.add_argument("--list", action="store_true", help="print the targets' names")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    given = parser.parse_args()
    names = given.targets or [target.name for target in TARGETS]
    chosen = [target for target in TARGETS if target.name in names]
    if len(chosen) != len(set(names)):
        parser.error(f"targets are {', '.join(target.name for target in TARGETS)}")
    if given.list:
        print("\n".join(target.name for target in chosen))
        return 0
    if given.again is not None:
        files = {
            path.name: path.read_bytes() for path in sorted(given.again.iterdir()) if path.is_file()
        }
        print(again(chosen[0], given.again, files))
        return 0
    failed = [target for target in chosen if not _run(target, given.seconds, given.seed)]
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
