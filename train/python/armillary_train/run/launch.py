"""The processes of a training run on one machine, without PyTorch.

Here: starting one process for each rank, and ending all of them with one message when one fails.
Not here: what a process does (`loop.py`), how processes talk (`ranks/world.py`).

Every process gets the environment that torchrun gives: `RANK`, `LOCAL_RANK`, `WORLD_SIZE`,
`LOCAL_WORLD_SIZE`, `MASTER_ADDR`, `MASTER_PORT`. So `torchrun` can start a run as well. A process
of ours writes why it fails to a file, because the others fail a moment later for want of it, and
only the first reason is worth reading. It ends when this process ends, however that happens: its
standard input is closed then."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from armillary import old_words
from armillary.errors import (
    ArmillaryError,
    InputError,
    LostContactError,
    Problem,
    TrainingError,
    out_of_memory,
)

from ..settings import Settings

_FAULTS = "ARMILLARY_TRAIN_FAULTS"
"""Environment variable: the folder into which a process of ours writes why it fails."""
_POLL = 0.02
_GRACE = 2.0
"""Seconds that the others get to say why they fail, and to end when they are asked to."""
_SHOWN = 5
"""Last lines of standard error that are shown of a process that ended without a reason."""


def is_worker() -> bool:
    """Whether this process is one rank of a run, started by us or by torchrun."""
    return "RANK" in os.environ and "WORLD_SIZE" in os.environ


def of_world(settings: Settings) -> Settings:
    """The settings of a rank: the environment says how many processes there are."""
    text = os.environ["WORLD_SIZE"]
    if not re.fullmatch("[0-9]{1,9}", text):
        said = f"WORLD_SIZE is {text[:40]!r}"
        raise InputError([Problem("", "WORLD_SIZE", said, "a whole number, as torchrun sets it")])
    return replace(settings, ranks=int(text))


def quiet_threads() -> None:
    """Lets PyTorch's threads wait for each other without taking a core, for this process and those
    it starts. It works before PyTorch is loaded only.

    GNU's OpenMP spins for about a tenth of a second by default. A run of two threads next to other
    work on two cores was nine times slower for it."""
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")


def quiet_logs() -> None:
    """Keeps what PyTorch's profiler and its network say themselves off the terminal, for this
    process and those it starts. Errors say why they are raised. It works before PyTorch is loaded
    only."""
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")
    os.environ.setdefault("TORCH_CPP_LOG_LEVEL", "FATAL")


def spawn(
    count: int,
    arguments: Sequence[str],
    threads: int,
    *,
    restarts: int = 0,
    saves: bool = False,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Runs `armillary` with `arguments` in `count` processes, as ranks of a run, and returns when
    all have ended well. What rank 0 prints goes where ours does. If a process dies or is lost, all
    start again with `--resume`, up to `restarts` times; `say` gets the reason. A run that `saves`
    checkpoints ends with one if this process is interrupted, and at once if that happens again.

    Raises what the first failing process raised; the others are ended."""
    for left in range(restarts, -1, -1):
        try:
            _run(count, arguments, threads, saves=saves)
        except LostContactError as error:
            if not left:
                raise
            some = f"{left} more restart{'s' if left > 1 else ''}"
            say(f"{error.problems[0]}; going on from the last checkpoint, with {some} at most")
            if "--resume" not in arguments:
                arguments = [*arguments, "--resume"]
        else:
            return


def _run(count: int, arguments: Sequence[str], threads: int, *, saves: bool) -> None:
    """One attempt of `spawn`."""
    with tempfile.TemporaryDirectory(prefix="armillary-train-") as folder:
        shared = {
            **os.environ,
            "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
            **_loopback_only(),
            "OMP_NUM_THREADS": str(threads),
            "POLARS_MAX_THREADS": str(threads),
            old_words.SAID: "1",
            _FAULTS: folder,
        }
        processes: list[subprocess.Popen[bytes]] = []
        try:
            for rank in range(count):
                processes.append(_start(rank, arguments, shared, Path(folder)))
            _wait(processes, Path(folder))
        except KeyboardInterrupt:
            if saves and len(processes) == count:
                _let_save(processes, Path(folder))
            raise
        finally:
            _end(processes)


@contextlib.contextmanager
def worker() -> Iterator[None]:
    """The work of one rank. If a process of ours started this one, errors are reported to it and
    this process ends at once, in whatever state communication is; otherwise they are raised."""
    folder = os.environ.get(_FAULTS)
    if folder is None:
        yield
        return
    threading.Thread(target=_end_with_parent, args=(Path(folder),), daemon=True).start()
    try:
        yield
        sys.stdout.flush()
    except ArmillaryError as error:
        _leave(Path(folder), type(error).__name__, error.problems)
    except KeyboardInterrupt as stop:
        os._exit(128 + getattr(stop, "number", signal.SIGINT))
    except BrokenPipeError as error:
        _leave(Path(folder), type(error).__name__, [])
    except Exception as error:
        problem = out_of_memory(error)
        if problem is None and isinstance(error, OSError):
            said = error.strerror or str(error)
            problem = Problem(str(error.filename or "this process"), "", said)
        if problem is not None:
            _leave(Path(folder), "InputError", [problem])
        place = traceback.extract_tb(error.__traceback__)[-1]
        said = " ".join(f"{type(error).__name__}: {error}".split())[:300]
        said = f"{said} at {Path(place.filename).name}:{place.lineno}"
        if os.environ.get("ARMILLARY_TRACEBACK"):
            traceback.print_exception(error)
        _leave(Path(folder), "", [Problem("", "", said)])


def _start(
    rank: int, arguments: Sequence[str], shared: dict[str, str], folder: Path
) -> subprocess.Popen[bytes]:
    environment = {**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)}
    command = [sys.executable, "-m", "armillary.cli", *arguments]
    said = None if rank == 0 else (folder / f"stderr-{rank}").open("wb")
    try:
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=None if rank == 0 else subprocess.DEVNULL,
            stderr=said,
            env=environment,
            # Ctrl-C reaches this process only, which ends the others.
            start_new_session=True,
        )
    finally:
        if said is not None:
            said.close()


def _wait(processes: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    while True:
        codes = [process.poll() for process in processes]
        if any(codes):
            break
        if None not in codes:
            return
        time.sleep(_POLL)
    deadline = time.monotonic() + _GRACE
    while time.monotonic() < deadline:
        if any(kind != LostContactError.__name__ for _, kind, _ in _reports(folder)):
            break
        codes = [process.poll() for process in processes]
        if None not in codes:
            break
        time.sleep(_POLL)
    raise _reason(processes, folder)


def _let_save(processes: Sequence[subprocess.Popen[bytes]], folder: Path) -> None:
    """Asks all processes to end with a checkpoint, and waits for that. Raises why they can't. If
    this process is interrupted again, they end at once."""
    try:
        for process in processes:
            process.terminate()
        deadline = math.inf
        while None in [process.poll() for process in processes] and time.monotonic() < deadline:
            time.sleep(_POLL)
            if any(0 != (process.poll() or 0) < 128 for process in processes):  # No signal's code.
                deadline = min(deadline, time.monotonic() + _GRACE)
    except KeyboardInterrupt:
        for process in processes:
            process.kill()
        raise
    if any(kind != LostContactError.__name__ for _, kind, _ in _reports(folder)):
        raise _reason(processes, folder)


def _reports(folder: Path) -> list[tuple[int, str, list[Problem]]]:
    """Rank, kind of error and problems of each process that said why it fails, the first one
    first."""
    found = []
    for path in folder.glob("fault-*.json"):
        content = json.loads(path.read_text(encoding="utf-8"))
        problems = [Problem(**each) for each in content["problems"]]
        found.append((content["time"], content["rank"], content["kind"], problems))
    return [(rank, kind, problems) for _, rank, kind, problems in sorted(found, key=lambda f: f[0])]


def _reason(processes: Sequence[subprocess.Popen[bytes]], folder: Path) -> Exception:
    """Why the run fails: the first reason that is not the failure of another process."""
    reports = _reports(folder)
    reported = {rank for rank, _, _ in reports}
    for rank, kind, problems in reports:
        if kind == InputError.__name__:
            return InputError(problems)
        if kind == TrainingError.__name__:
            return TrainingError(problems)
        if kind == BrokenPipeError.__name__:
            return BrokenPipeError()
        if not kind:
            return RuntimeError(f"rank {rank}: {problems[0].message}")
    for rank, process in enumerate(processes):
        code = process.poll()
        if code and rank not in reported:
            return LostContactError([_silent(rank, code, folder)])
    return LostContactError(reports[0][2])


def _silent(rank: int, code: int, folder: Path) -> Problem:
    """The problem of a process that ended without a reason."""
    if code < 0:
        name = signal.Signals(-code).name
        said = f"the process was ended by {name}"
        help_ = "enough memory, if the system ended it" if name == "SIGKILL" else ""
        return Problem("", f"rank {rank}", said, help_)
    lines: list[str] = []
    with contextlib.suppress(OSError):
        text = (folder / f"stderr-{rank}").read_text(encoding="utf-8", errors="replace")
        lines = text.strip().splitlines()[-_SHOWN:]
    said = f"the process ended with exit code {code}"
    return Problem(
        "", f"rank {rank}", ": ".join([said, *(" ".join(lines).split("\n"))]).strip(": ")
    )


def _end(processes: Sequence[subprocess.Popen[bytes]]) -> None:
    """Ends what still runs: politely first, then for certain."""
    for process in processes:
        if process.poll() is None:
            process.terminate()
    deadline = time.monotonic() + _GRACE
    for process in processes:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(max(0.0, deadline - time.monotonic()))
        if process.poll() is None:
            process.kill()
            process.wait()
        if process.stdin is not None:
            process.stdin.close()


def _end_with_parent(folder: Path) -> None:
    """Ends this process when the one that started it is gone, and removes its folder, which it
    could not do itself if it was killed."""
    with contextlib.suppress(OSError):
        while os.read(0, 1):
            pass
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


def _leave(folder: Path, kind: str, problems: Sequence[Problem]) -> None:
    """Writes why this process fails, and ends it."""
    rank = int(os.environ["RANK"])
    content = {
        "time": time.time(),
        "rank": rank,
        "kind": kind,
        "problems": [asdict(each) for each in problems],
    }
    scratch = folder / f"scratch-{rank}"
    with contextlib.suppress(OSError):
        scratch.write_text(json.dumps(content), encoding="utf-8")
        scratch.replace(folder / f"fault-{rank}.json")
    os._exit(1)


def _loopback_only() -> dict[str, str]:
    """Environment that keeps the ports of gloo and NCCL off the machine's outer addresses. They
    have no password, and all processes are on this machine."""
    found = {name for _, name in socket.if_nameindex()} & {"lo", "lo0"}
    return {each: name for name in found for each in ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")}


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])
