"""Many runs of one study: the points, the workers, the journal, the table."""

from .run import Progress, Status, Sweep, check, load, sweep

__all__ = ["Progress", "Status", "Sweep", "check", "load", "sweep"]
