"""One operation graph under construction."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .. import _core
from .summary import Volume


class Program(_core.Program):
    """What one rank does, node by node; see `_core.Program` for the operations that can be added.

    Ids ascend from 0 in order of creation. Of the nodes that could start, the one with the smallest id starts first.
    """

    @property
    def volumes(self) -> tuple[Volume, ...]:
        """What was handed to collectives and sends so far, by group and kind."""
        return tuple(Volume(*row) for row in self.tallied())

    @contextmanager
    def holding(self, *, allocates: int = 0, frees: int = 0) -> Iterator[None]:
        """The first node added within takes bytes of the NPU's memory, the last one gives bytes back."""
        first = len(self)
        yield
        if len(self) > first:
            self.hold(first, allocates=allocates)
            self.hold(len(self) - 1, frees=frees)

    @contextmanager
    def layer(self, name: str) -> Iterator[None]:
        """The nodes added within belong to the layer `name` of the model: `with program.layer("layer3"):`.

        Reports sum by layer. Without one, or with "", a node belongs to the layer its name begins with, up to the first
        dot.
        """
        before, self.label = self.label, name
        try:
            yield
        finally:
            self.label = before
