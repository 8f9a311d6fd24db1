"""Short sequences of operations as data, and the stream that plays them into a program.

Here: `Gemm`, `Work`, `Call`, `Start`, `Exchange`, `Wait`, `Inner` and `Stream`. Not here: which operations a layer has
(`layer.py`).
A stream is an accelerator's compute stream: every kernel waits for the one before it, and for the communication asked
to be waited for. Communication waits for the kernels before it and runs beside those after it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from .program import Program


class Gemm(NamedTuple):
    """`batch` times (`m` x `k`)(`k` x `n`)."""

    name: str
    m: int
    n: int
    k: int
    batch: int = 1
    width: int = 0
    """Bytes of an element; 0 for those of the stream."""
    grouped: bool = False
    """One matrix for each of several groups of rows, as experts have."""


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


class Exchange(NamedTuple):
    """A message to the next rank of the ring and one from the rank before, beside what follows up to the `Wait`."""

    name: str
    bytes: int


class Wait(NamedTuple):
    """The next kernel waits for the collective or message started under that name."""

    name: str


Step: TypeAlias = Gemm | Work | Call | Start | Exchange | Wait
Script: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True)
class Inner:
    """The kernels between a block's columns and rows."""

    forward: Script
    backward: Script
    again: Script = ()
    """What is computed again where results of multiplications and attention are kept, but no others."""


class Ring(NamedTuple):
    """Where the neighbours of a rank are: ranks to the next and to the one before."""

    ahead: int
    behind: int


class Stream:
    """Adds operations to a program in stream order."""

    __slots__ = ("after", "program", "ring", "started", "suffix", "tags", "width")

    def __init__(self, program: Program, width: int, ring: Ring) -> None:
        self.program = program
        self.after: list[int] = []
        """What the next kernel waits for."""
        self.started: dict[str, int] = {}
        self.width = width
        """Bytes of an element of a matrix multiplication."""
        self.ring = ring
        self.suffix = ""
        """Of the names of groups: passes side by side have communicators of their own, so that the order of each's
        collectives is that of its program."""
        self.tags = itertools.count()
        """Tags of exchanges to come; branches share them."""

    def play(self, prefix: str, script: Iterable[Step]) -> None:
        """Adds the steps; names get the prefix."""
        program, after, width = self.program, self.after, self.width
        for step in script:
            if isinstance(step, Gemm):
                name, m, n, k, batch, own, grouped = step
                after = [
                    program.gemm(prefix + name, after, m=m, n=n, k=k, batch=batch, width=own or width, grouped=grouped)
                ]
            elif isinstance(step, Work):
                name, kernel, operations, size = step
                after = [program.compute(prefix + name, after, operations=operations, bytes=size, kernel=kernel)]
            elif isinstance(step, Wait):
                after = [*after, self.started.pop(step.name)]
            elif isinstance(step, Exchange):
                self.started[step.name] = self._exchange(prefix + step.name, after, step.bytes)
            else:
                name, what, size, group = step
                node = program.collective(prefix + name, after, what, size, group + self.suffix)
                if isinstance(step, Call):
                    after = [*after, node]
                else:
                    self.started[name] = node
        self.after = after

    def _exchange(self, name: str, after: list[int], size: int) -> int:
        """Both messages of an exchange; the one to wait for."""
        tag = next(self.tags)
        self.program.send(f"{name}.send", after, self.ring.ahead, size, tag)
        return self.program.recv(f"{name}.receive", after, self.ring.behind, size, tag)

    def branch(self) -> Stream:
        """A stream that goes on from here side by side with this one."""
        found = Stream(self.program, self.width, self.ring)
        found.after, found.tags = self.after, self.tags
        return found

    def join(self, streams: Iterable[Stream]) -> None:
        """Goes on where all of these have ended."""
        self.after = list(dict.fromkeys(node for stream in streams for node in stream.after))

    def wait(self, node: int) -> None:
        """The next kernel waits for `node` too."""
        self.after = [*self.after, node]
