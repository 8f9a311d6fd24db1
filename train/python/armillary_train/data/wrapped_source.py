"""A source around another one, with the same samples.

Here: what such sources have in common. Not here: where they make the batches (`readers.py`,
`ray_readers.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..settings import Settings
from .samples import Source

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Wrapped:
    """The samples of another source."""

    def __init__(self, source: Source, settings: Settings) -> None:
        """The samples of `source`, which is the one that `settings` name."""
        self._source, self._settings = source, settings

    @property
    def size(self) -> int | None:
        """As `Source.size`."""
        return self._source.size

    @property
    def identity(self) -> str:
        """As `Source.identity`."""
        return self._source.identity

    def bound(self, first: int, count: int) -> NDArray[np.float64] | None:
        """As `Source.bound`."""
        return self._source.bound(first, count)
