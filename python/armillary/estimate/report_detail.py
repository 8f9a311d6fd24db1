"""The detail of a report: its operations, collectives and critical path."""

from __future__ import annotations

from ..errors import InputError, Problem
from ..schema import Detail, Report


def detail(report: Report, what: str = "") -> Detail:
    """The detail of a report. Raises `InputError` for a report without one."""
    found = report["detail"]
    if found is None or "collectives" not in found:
        message = "the report has no detail, so its parts are unknown"
        raise InputError(
            [
                Problem(
                    what, "detail", message, "armillary run --json, or simulate(..., detail=True)"
                )
            ]
        )
    return found
