"""Short sequences of operations as data, and the stream that plays them into a program.

Here: `Gemm`, `Work`, `Call`, `Start`, `Wait` and `Stream`. Not here: which operations a layer has (`layer.py`).
A stream is an accelerator's compute stream: every kernel waits for the one before it, and for the communication asked
to be waited for. Communication waits for the kernels before it and runs beside those after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

from .program import Program


class Gemm(NamedTuple):
    """`batch` times (`m` x `k`)(`k` x `n`)."""

    name: str
    m: int
    n: int
    k: int
    batch: int = 1


class Work(NamedTuple):
    """A kernel of `operations` over `bytes`."""

    name: str
    kernel: str
    operations: int
    bytes: int


class Call(NamedTuple):
    """A collective that the next kernel waits for."""

    name: str
    kind: str
    bytes: int
    group: str


class Start(NamedTuple):
    """A collective that runs beside what follows, up to the `Wait` of that name."""

    name: str
    kind: str
    bytes: int
    group: str


class Wait(NamedTuple):
    """The next kernel waits for the collective started under that name."""

    name: str


Step: TypeAlias = Gemm | Work | Call | Start | Wait
Script: TypeAlias = tuple[Step, ...]


class Stream:
    """Adds operations to a program in stream order."""

    __slots__ = ("after", "program", "started", "width")

    def __init__(self, program: Program, width: int) -> None:
        self.program = program
        self.after: list[int] = []
        """What the next kernel waits for."""
        self.started: dict[str, int] = {}
        self.width = width
        """Bytes of an element of a matrix multiplication."""

    def play(self, prefix: str, script: Iterable[Step]) -> None:
        """Adds the steps; names get the prefix."""
        program, after, width = self.program, self.after, self.width
        for step in script:
            if isinstance(step, Gemm):
                name, m, n, k, batch = step
                after = [program.gemm(prefix + name, after, m=m, n=n, k=k, batch=batch, width=width)]
            elif isinstance(step, Work):
                name, kernel, operations, size = step
                after = [program.compute(prefix + name, after, operations=operations, bytes=size, kernel=kernel)]
            elif isinstance(step, Wait):
                after = [*after, self.started.pop(step.name)]
            else:
                name, what, size, group = step
                node = program.collective(prefix + name, after, what, size, group)
                if isinstance(step, Call):
                    after = [*after, node]
                else:
                    self.started[name] = node
        self.after = after

    def wait(self, node: int) -> None:
        """The next kernel waits for `node` too."""
        self.after = [*self.after, node]
