"""Short runs of several processes, which may be killed. One process loads PyTorch and is copied
(forked) for each rank, so that a run takes a fraction of a second.

`Runs` is the side of the tests. As a program, it is the process that is copied."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from armillary.model.dlrm import Dlrm
    from armillary_train.ranks.world import World
    from armillary_train.settings import Settings

PATIENCE = 120.0
_HARD = resource.getrlimit(resource.RLIMIT_FSIZE)[1]


class Runs:
    """The process that runs are copied from."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )

    def run(self, size: int = 1, **job: object) -> list[dict[str, Any]]:
        """What each rank says: `outcome`, or `error` and `problems`; `killed` if it was.

        `settings` of the run. `kill`: seconds of training after which a rank is killed. `stop`: the
        same, with SIGTERM to one rank. `limit`:
        largest file that the last rank may write. `reshard`: a folder for a checkpoint of what was
        restored, instead of training."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(json.dumps({"size": size, **job}).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        assert line, "the process of runs has ended"
        found: list[dict[str, Any]] = json.loads(line)
        return found

    def good(self, size: int = 1, **job: object) -> dict[str, Any]:
        """The outcome of a run without errors."""
        found = self.run(size, **job)
        assert all("outcome" in each for each in found), found
        outcome: dict[str, Any] = found[0]["outcome"]
        return outcome


@contextlib.contextmanager
def runs() -> Iterator[Runs]:
    """The process that runs are copied from, which ends with the block."""
    made = Runs()
    try:
        yield made
    finally:
        made.process.kill()
        made.process.communicate()


def digest(folder: str | Path) -> dict[str, str]:
    """Checksums of all that the last checkpoint of a folder contains, by table and part."""
    from armillary_train.checkpoint.content import Content
    from armillary_train.checkpoint.folder import last

    content = Content(*last(folder))
    content.check()
    found = {}
    for table in content.tables.values():
        for part in ("weight", *table.state):
            rows = content.rows(table.name, part, range(table.rows), range(table.dim))
            found[f"{table.name}.{part}"] = hashlib.sha256(rows.tobytes()).hexdigest()
    for key, values in content.tensors("dense").items():
        found[f"dense{key}"] = hashlib.sha256(values.tobytes()).hexdigest()
    metrics = sum(content.tensors("metrics.").values())
    found["metrics"] = metrics.tobytes().hex()[:64]  # type: ignore[union-attr]
    facts = {key: each for key, each in content.last.progress.items() if key != "seconds"}
    found["progress"] = json.dumps(facts, sort_keys=True)
    return found


def _serve() -> None:
    # Loaded once, before copies are made. The second one is what a backward pass loads.
    import torch
    from torch.fx.experimental import symbolic_shapes  # noqa: F401

    from armillary.model import load_model
    from armillary.model.dlrm import parse
    from armillary_train.data import synthetic  # noqa: F401
    from armillary_train.ranks import world  # noqa: F401
    from armillary_train.run import loop  # noqa: F401

    parse(load_model("dlrm-small"))

    torch.set_num_threads(1)
    for line in sys.stdin:
        print(json.dumps(_ranks(json.loads(line))), flush=True)


def _ranks(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Runs a job on all of its ranks, and kills one of them if asked."""
    size = job["size"]
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        ranks = []
        for rank in range(size):
            process = os.fork()
            if not process:
                _rank(job, rank, port, folder)
            ranks.append(process)
        if "kill" in job or "stop" in job:
            _end(ranks, job, folder)
        for rank, process in enumerate(ranks):
            _, status = os.waitpid(process, 0)
            if os.WIFSIGNALED(status):
                found = {"killed": os.WTERMSIG(status)}
                (folder / f"answer-{rank}").write_text(json.dumps(found))
        return [json.loads((folder / f"answer-{rank}").read_text()) for rank in range(size)]


def _end(ranks: list[int], job: dict[str, Any], folder: Path) -> None:
    """Kills a rank some time after the first step, and the others a moment later; or asks one of
    them to stop."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline and not (folder / "begun").exists():
        if any(os.waitid(os.P_PID, each, os.WEXITED | os.WNOHANG | os.WNOWAIT) for each in ranks):
            break
        time.sleep(0.002)
    delay = float(job["kill"] if "kill" in job else job["stop"])
    time.sleep(delay)
    first = random.Random(delay).choice(ranks)
    if "stop" in job:
        os.kill(first, signal.SIGTERM)
        return
    for process in (first, *ranks):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
        time.sleep(0.01)


def _rank(job: dict[str, Any], rank: int, port: int, folder: Path) -> None:
    """One rank of a job, in a process of its own, which ends here."""
    from armillary.errors import ArmillaryError

    os.environ.update(
        RANK=str(rank),
        WORLD_SIZE=str(job["size"]),
        MASTER_ADDR="127.0.0.1",
        MASTER_PORT=str(port),
    )
    if "limit" in job and rank == job["size"] - 1:
        resource.setrlimit(resource.RLIMIT_FSIZE, (job["limit"], _HARD))
    try:
        answer = _trained(job, rank, folder)
    except ArmillaryError as error:
        problems = [asdict(each) for each in error.problems]
        answer = {"error": type(error).__name__, "problems": problems}
    except BaseException:
        answer = {"error": "bug", "problems": [{"message": traceback.format_exc()}]}
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (_HARD, _HARD))
        (folder / f"answer-{rank}").write_text(json.dumps(answer))
    finally:
        os._exit(0)


def _trained(job: dict[str, Any], rank: int, folder: Path) -> dict[str, Any]:
    from armillary.model import load_model
    from armillary.model.dlrm import parse
    from armillary_train.ranks import world
    from armillary_train.run import loop
    from armillary_train.settings import Settings

    settings = Settings(**{"ranks": job["size"], **job["settings"]})
    settings.check()
    facts = parse(load_model(settings.model))
    begun = (lambda *_: (folder / "begun").touch()) if rank == 0 else None
    with world.joined(settings.timeout) as here:
        if "reshard" in job:
            _reshard(settings, facts, here, job["reshard"])
            return {"outcome": {}}
        return {"outcome": asdict(loop.train(settings, facts, here, progress=begun))}


def _reshard(settings: Settings, facts: Dlrm, here: World, into: str) -> None:
    """Restores a checkpoint and makes another one of what was restored."""
    from armillary_train.checkpoint.folder import Folder
    from armillary_train.checkpoint.run_checkpoints import Checkpoints, checkpoints
    from armillary_train.checkpoint.saver import Saver
    from armillary_train.checkpoint.shards import shards_of, stored_tables
    from armillary_train.run import loop

    trainer, outcome = loop.Trainer(settings, facts, here), loop.Outcome()
    with checkpoints(trainer, outcome):
        saver = Saver(
            Folder(into),
            here,
            shards_of(trainer.embeddings, here.rank, here.size),
            stored_tables(trainer.embeddings),
            run="again",
        )
        Checkpoints(trainer, saver).after(outcome, end=True)
        saver.settle()


if __name__ == "__main__":
    _serve()
