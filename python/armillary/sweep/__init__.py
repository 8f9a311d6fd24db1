"""Many runs of one study: the points, the workers, the journal, the table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .. import _late
from .run import Progress, check, sweep

if TYPE_CHECKING:
    from .results import Status, Sweep, load

__all__ = ["Progress", "Status", "Sweep", "check", "load", "sweep"]

__getattr__ = _late.attributes(
    __name__, {"Status": "results", "Sweep": "results", "load": "results"}
)
