"""A calibration on a terminal."""

from __future__ import annotations

import io

from rich.console import Console

from armillary.report import calibration


def test_a_change_without_an_interval_is_shown() -> None:
    """A value without an interval is a guess that the platform holds all the same; what stayed has
    no line."""
    entry = {"unit": "us", "given": 2.0, "low": None, "high": None, "found": False}
    parameters = [
        {**entry, "key": "library.call_overhead", "fitted": 3.0},
        {**entry, "key": "library.p2p_overhead", "fitted": 2.0},
    ]
    found = {
        "platform": "p",
        "parameters": parameters,
        "points": [],
        "curves": [],
        "kernels": [],
        "notes": [],
    }
    written = io.StringIO()
    calibration.show(found, Console(width=100, file=written))
    shown = [line.split() for line in written.getvalue().splitlines()]
    assert ["call_overhead", "2", "us", "3", "us", "not", "alone"] in shown
    assert not any(line[:1] == ["p2p_overhead"] for line in shown)


def test_an_error_that_stays_does_not_go_anywhere() -> None:
    point = {"measured_us": 100.0, "given_us": 114.7, "fitted_us": 114.71}
    moved = {**point, "fitted_us": 105.0}
    found: dict[str, list[object]] = {"parameters": [], "curves": [], "kernels": [], "points": []}
    assert "stays at 14.7 %" in calibration.verdict({**found, "points": [point]})
    assert "goes from 14.7 to 5.0 %" in calibration.verdict({**found, "points": [moved]})
