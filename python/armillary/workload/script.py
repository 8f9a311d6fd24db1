"""Short sequences of operations as data, and the stream that plays them into a program.

Here: `Gemm`, `KernelStep`, `CollectiveStep`, `Start`, `Exchange`, `Wait`, `Inner`, `Scripts` and
`KernelStream`. Not here: which operations a layer has (`layer.py`). A stream is an accelerator's
compute stream: every kernel waits for the one before it, and for the communication asked to be
waited for. Communication waits for the kernels before it and overlaps with those after it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from .. import _core
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


class KernelStep(NamedTuple):
    """A kernel of `operations` over `bytes`."""

    name: str
    kernel: str
    operations: int
    bytes: int


class CollectiveStep(NamedTuple):
    """A collective that the next kernel waits for."""

    name: str
    kind: str
    bytes: int
    group: str


class Start(NamedTuple):
    """A collective that overlaps with what follows, up to the `Wait` of that name."""

    name: str
    kind: str
    bytes: int
    group: str


class Exchange(NamedTuple):
    """A message to the next rank of the ring and one from the rank before. They overlap with what
    follows, up to the `Wait`."""

    name: str
    bytes: int


class Wait(NamedTuple):
    """The next kernel waits for the collective or message started under that name."""

    name: str


Step: TypeAlias = Gemm | KernelStep | CollectiveStep | Start | Exchange | Wait
Script: TypeAlias = tuple[Step, ...]


@dataclass(frozen=True)
class Inner:
    """The kernels between a block's columns and rows."""

    forward: Script
    backward: Script
    again: Script = ()
    """Kernels that are computed again where results of multiplications and attention are kept, but
    no others."""


class Scripts(NamedTuple):
    """A layer's three passes, `recomputed` before the backward one."""

    forward: Script
    backward: Script
    """Pass for both gradients."""
    inputs: Script
    """Input gradients only."""
    weights: Script
    """Weight gradients only."""
    needed: Script = ()
    """Part of the forward pass that the backward one asks for: all but the last matrices and the
    operations after them."""
    again: Script = ()
    """Operations that `recompute="ops"` computes again."""


def join(first: Scripts, second: Scripts) -> Scripts:
    """One block after the other."""
    return Scripts(
        first.forward + second.forward,
        second.backward + first.backward,
        second.inputs + first.inputs,
        second.weights + first.weights,
        first.forward + second.needed,
        first.again + second.again,
    )


def named(scripts: Scripts, prefix: str) -> Scripts:
    """The same with names that begin with `prefix`."""
    return Scripts(
        *(tuple(step._replace(name=prefix + step.name) for step in script) for script in scripts)
    )


class Ring(NamedTuple):
    """Where the neighbours of a rank are: ranks to the next and to the one before."""

    ahead: int
    behind: int


class KernelStream:
    """Adds operations to a program in stream order."""

    __slots__ = ("after", "known", "program", "ring", "started", "suffix", "tags", "width")

    def __init__(self, program: Program, width: int, ring: Ring) -> None:
        self.program = program
        self.after: list[int] = []
        """Operations that the next kernel waits for."""
        self.started: dict[str, int] = {}
        self.width = width
        """Bytes of an element of a matrix multiplication."""
        self.ring = ring
        self.suffix = ""
        """Suffix of the names of groups. Passes that run side by side have communicators of their
        own, so that the collectives of each have the order of its program."""
        self.tags = [0]
        """Tag of the next exchange; branches share it."""
        self.known: dict[int, tuple[Script, _core.Script]] = {}
        """Scripts that were played, by identity; branches share them."""

    def play(self, prefix: str, script: Script) -> None:
        """Adds the steps; names get the prefix."""
        compiled = self._compiled(script)
        self.after, self.tags[0] = self.program.play(
            compiled, prefix, self.suffix, self.after, self.started, self.ring, self.tags[0]
        )

    def _compiled(self, script: Script) -> _core.Script:
        """The steps as the core plays them; those of layers are the same objects again and
        again."""
        known = self.known.get(id(script))
        if known is None:
            known = script, _compiled(script, self.width)
            if len(script) > 1:
                self.known[id(script)] = known
        return known[1]

    def branch(self) -> KernelStream:
        """A stream that goes on from here side by side with this one."""
        found = KernelStream(self.program, self.width, self.ring)
        found.after, found.tags, found.known = self.after, self.tags, self.known
        return found

    def join(self, streams: Iterable[KernelStream]) -> None:
        """Goes on where all of these have ended."""
        self.after = list(dict.fromkeys(node for stream in streams for node in stream.after))

    def wait(self, node: int) -> None:
        """The next kernel waits for `node` too."""
        self.after = [*self.after, node]


def _compiled(script: Script, width: int) -> _core.Script:
    """The steps for the core; `width` is the width of elements where a step gives none."""
    made = _core.Script()
    for step in script:
        if isinstance(step, Gemm):
            name, m, n, k, batch, own, grouped = step
            made.gemm(name, m, n, k, batch, own or width, grouped)
        elif isinstance(step, KernelStep):
            made.compute(*step)
        elif isinstance(step, Wait):
            made.wait(step.name)
        elif isinstance(step, Exchange):
            made.exchange(*step)
        else:
            name, kind, size, group = step
            made.collective(name, kind, size, group, isinstance(step, CollectiveStep))
    return made
