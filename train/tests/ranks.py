"""Processes that run cases of sharded tables together: started once, asked many times.

`Ranks` is the side of the tests. The processes run `sharded_cases.py`."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from command_copies import Copies

Answer = Any
"""What JSON can say."""

PATIENCE = 100.0
"""Seconds for one case on a busy machine. A rank that hangs fails the test then."""


class Ranks:
    """Processes with a group each of 1, 2 and all: copies of one that has loaded PyTorch."""

    def __init__(
        self, trainings: Copies, size: int, folder: Path, environment: Mapping[str, str]
    ) -> None:
        self.ranks = [Asked(trainings, rank, size, folder, environment) for rank in range(size)]

    def run(
        self, case: str, size: int, *, lost: int | None = None, **arguments: object
    ) -> list[Answer]:
        """What the case returns on each of the first `size` ranks, or what it raises: the name of
        the error's class and its text. The rank `lost` ends."""
        question = json.dumps({"case": case, "size": size, "arguments": arguments}) + "\n"
        asked = self.ranks[:size]
        for each in asked:
            each.say(question)
        deadline = time.monotonic() + PATIENCE
        return [each.answer(deadline) for rank, each in enumerate(asked) if rank != lost]

    def same(self, case: str, size: int, **arguments: Answer) -> Answer:
        """What the case returns, which is the same on all ranks."""
        answers = self.run(case, size, **arguments)
        assert all(answer == answers[0] for answer in answers), answers
        return answers[0]

    def end(self) -> None:
        """Ends all processes."""
        for each in self.ranks:
            each.end()


class Asked:
    """One of the processes, and the pipes to and from it."""

    def __init__(
        self,
        trainings: Copies,
        rank: int,
        size: int,
        folder: Path,
        environment: Mapping[str, str],
    ) -> None:
        given, self._questions = os.pipe()
        self._answers, output = os.pipe()
        store = str(folder / "store")
        program = f"import sys; sys.path[:0] = {sys.path!r}; import sharded_cases; "
        program += f"sharded_cases.main({rank}, {size}, {store!r})"
        self.command = trainings.start(
            ["-c", program], folder, environment, output=output, given=given
        )
        os.close(given)
        os.close(output)
        self._lines = os.fdopen(self._answers)

    def say(self, question: str) -> None:
        """Asks."""
        os.write(self._questions, question.encode())

    def answer(self, deadline: float) -> Answer:
        """What the process says, until a moment."""
        left = max(0.0, deadline - time.monotonic())
        assert select.select([self._answers], [], [], left)[0], "a rank hangs"
        line = self._lines.readline()
        assert line, self.command.communicate(PATIENCE)
        return json.loads(line)

    def end(self) -> None:
        """Ends the process."""
        self.command.send_signal(signal.SIGKILL)
        self.command.communicate(PATIENCE)
        os.close(self._questions)
        self._lines.close()


@contextlib.contextmanager
def ranks(
    trainings: Copies, size: int, environment: Mapping[str, str] = os.environ
) -> Iterator[Ranks]:
    """`size` processes, which end with the block."""
    with tempfile.TemporaryDirectory() as folder:
        found = Ranks(trainings, size, Path(folder), environment)
        try:
            yield found
        finally:
            found.end()
