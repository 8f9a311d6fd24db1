"""Short runs of several processes, which may be killed. A process that has loaded PyTorch is copied
(forked) for each rank, so that a run takes a fraction of a second.

`Runs` is the side of the tests. `serve` is what the process does that is copied."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import resource
import signal
import socket
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from command_copies import Copies

if TYPE_CHECKING:
    from armillary.model.dlrm import Dlrm
    from armillary_train.ranks.world import World
    from armillary_train.settings import Settings

PATIENCE = 120.0
_HARD = resource.getrlimit(resource.RLIMIT_FSIZE)[1]


class Runs:
    """The process that runs are copied from, itself a copy of one that has loaded PyTorch."""

    def __init__(self, trainings: Copies, folder: Path) -> None:
        given, self._jobs = os.pipe()
        found, output = os.pipe()
        program = f"import sys; sys.path[:0] = {sys.path!r}; import runs; runs.serve()"
        self._command = trainings.start(
            ["-c", program], folder, os.environ, output=output, given=given
        )
        os.close(given)
        os.close(output)
        self._found = os.fdopen(found)

    def run(self, size: int = 1, **job: object) -> list[dict[str, Any]]:
        """What each rank says: `outcome`, or `error` and `problems`; `killed` if it was.

        `settings` of the run. `kill`: steps of the run, and seconds more, after which a rank is
        killed. `stop`: the same, with SIGTERM to one rank. `limit`: largest file that the last rank
        may write. `reshard`: a folder for a checkpoint of what was restored, instead of
        training."""
        os.write(self._jobs, json.dumps({"size": size, **job}).encode() + b"\n")
        line = self._found.readline()
        assert line, self._command.communicate(PATIENCE)
        found: list[dict[str, Any]] = json.loads(line)
        return found

    def good(self, size: int = 1, **job: object) -> dict[str, Any]:
        """The outcome of a run without errors."""
        found = self.run(size, **job)
        assert all("outcome" in each for each in found), found
        outcome: dict[str, Any] = found[0]["outcome"]
        return outcome

    def end(self) -> None:
        """Ends the process."""
        self._command.send_signal(signal.SIGKILL)
        self._command.communicate(PATIENCE)
        os.close(self._jobs)
        self._found.close()


@contextlib.contextmanager
def runs(trainings: Copies) -> Iterator[Runs]:
    """The process that runs are copied from, which ends with the block."""
    with tempfile.TemporaryDirectory() as folder:
        made = Runs(trainings, Path(folder))
        try:
            yield made
        finally:
            made.end()


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


def serve() -> None:
    """Runs jobs until there are no more."""
    import torch

    from armillary.model import load_model
    from armillary.model.dlrm import parse

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
    """Kills a rank some time after a step, and the others a moment later; or asks one of them to
    stop."""
    deadline, steps = time.monotonic() + PATIENCE, folder / "steps"
    least, delay = job["kill"] if "kill" in job else job["stop"]
    while time.monotonic() < deadline and not (steps.exists() and steps.stat().st_size >= least):
        if any(os.waitid(os.P_PID, each, os.WEXITED | os.WNOHANG | os.WNOWAIT) for each in ranks):
            break
        time.sleep(0.005)
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

    def count(_share: float, _text: str) -> None:
        with (folder / "steps").open("a") as counted:
            counted.write(".")

    with world.joined(settings.timeout) as here:
        if "reshard" in job:
            _reshard(settings, facts, here, job["reshard"])
            return {"outcome": {}}
        return {
            "outcome": asdict(loop.train(settings, facts, here, progress=None if rank else count))
        }


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
