"""One operation graph under construction."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from .. import _core
from .summary import Volume


class Program(_core.Program):
    """Operations of one rank, node by node; see `_core.Program` for the operations that can be
    added.

    Ids ascend from 0 in order of creation. Of the nodes that could start, the one with the smallest
    id starts first."""

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """Bytes handed to collectives and sends so far, for each group and kind."""
        return tuple(Volume(*row) for row in self.tallied())

    def with_peers(self, peers: Mapping[int, int]) -> Program:
        """A program of the same operations whose messages have other ranks: `peers[offset]` in
        place of each offset there. Both share their memory, and neither grows any more. Raises
        `ValueError` where two ranks would become one."""
        return Program(self, peers)

    def holding(self, *, allocates: int = 0, frees: int = 0) -> AbstractContextManager[None]:
        """The first node added within takes bytes of the NPU's memory, the last one gives bytes
        back."""
        return _Holding(self, allocates, frees)

    def layer(self, name: str) -> AbstractContextManager[None]:
        """The nodes added within belong to the layer `name` of the model: `with
        program.layer("layer3"):`.

        Reports sum by layer. Without one, or with "", a node belongs to the layer its name begins
        with, up to the first dot."""
        return _Labelled(self, name)


# Classes and no generators: a workload enters these hundreds of thousands of times.
class _Holding:
    __slots__ = ("allocates", "first", "frees", "program")

    def __init__(self, program: Program, allocates: int, frees: int) -> None:
        self.program, self.allocates, self.frees = program, allocates, frees

    def __enter__(self) -> None:
        self.first = len(self.program)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        end = len(self.program)
        if kind is None and end > self.first:
            self.program.hold(self.first, allocates=self.allocates)
            self.program.hold(end - 1, frees=self.frees)


class _Labelled:
    __slots__ = ("before", "name", "program")

    def __init__(self, program: Program, name: str) -> None:
        self.program, self.name = program, name

    def __enter__(self) -> None:
        self.before, self.program.label = self.program.label, self.name

    def __exit__(self, *_: object) -> None:
        self.program.label = self.before
