"""Processes that run cases of sharded tables together: started once, asked many times.

`Ranks` is the side of the tests. The processes are `sharded_cases.py`."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Answer = Any
"""What JSON can say."""

PATIENCE = 100.0
"""Seconds for one case on a busy machine. A rank that hangs fails the test then."""


class Ranks:
    """Processes with a group each of 1, 2 and all of them."""

    def __init__(self, size: int, folder: Path) -> None:
        script = Path(__file__).with_name("sharded_cases.py")
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "error"}
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(script), str(rank), str(size), str(folder / "store")],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
            )
            for rank in range(size)
        ]

    def run(
        self, case: str, size: int, *, lost: int | None = None, **arguments: object
    ) -> list[Answer]:
        """What the case returns on each of the first `size` ranks, or what it raises: the name of
        the error's class and its text. The rank `lost` ends."""
        question = json.dumps({"case": case, "size": size, "arguments": arguments}) + "\n"
        asked = self.processes[:size]
        for process in asked:
            assert process.stdin is not None
            process.stdin.write(question.encode())
            process.stdin.flush()
        deadline = time.monotonic() + PATIENCE
        left = [process for rank, process in enumerate(asked) if rank != lost]
        return [self._answer(process, deadline) for process in left]

    def same(self, case: str, size: int, **arguments: Answer) -> Answer:
        """What the case returns, which is the same on all ranks."""
        answers = self.run(case, size, **arguments)
        assert all(answer == answers[0] for answer in answers), answers
        return answers[0]

    def _answer(self, process: subprocess.Popen[bytes], deadline: float) -> Answer:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            assert selector.select(deadline - time.monotonic()), "a rank hangs"
        line = process.stdout.readline()
        assert line, f"a rank has ended with exit code {process.wait()}"
        return json.loads(line)

    def end(self) -> None:
        """Ends all processes."""
        for process in self.processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(BrokenPipeError):
                    if pipe is not None:
                        pipe.close()


@contextlib.contextmanager
def ranks(size: int) -> Iterator[Ranks]:
    """`size` processes, which end with the block."""
    with tempfile.TemporaryDirectory() as folder:
        found = Ranks(size, Path(folder))
        try:
            yield found
        finally:
            found.end()
