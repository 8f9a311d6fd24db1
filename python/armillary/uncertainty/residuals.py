"""Residuals of predictions, and their labels.

A residual is `ln(measured / predicted)` of a measurement that the fit behind the prediction has not
seen. Its labels say what it is of: operation, size band, hardware and the like. Whatever made the
prediction an extrapolation (more nodes than were fitted, another network) is a label too, so that
extrapolations are compared with extrapolations."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Residual:
    """One left-out measurement, or several of the same labels (the sizes of a band of a sweep)."""

    name: str
    """The sweep or run."""
    source: str
    """Who published it. Residuals of a source are not independent of each other."""
    labels: Mapping[str, str]
    """Subject of the residual, for each kind of label."""
    logs: tuple[float, ...]
    """ln(measured / predicted) of each measurement."""
