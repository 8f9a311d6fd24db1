"""A calibration as a page on a terminal."""

from __future__ import annotations

from armillary.report import calibration, calibration_page, words


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
        "version": "0",
        "parameters": parameters,
        "points": [],
        "curves": [],
        "kernels": [],
        "notes": [],
    }
    shown = [line.split() for line in words.text(calibration_page.page(found)).splitlines()]
    changed = "library.call_overhead 2 us 3 us changed, not certain alone"
    assert changed.split() in shown
    assert not any(line[:1] == ["library.p2p_overhead"] for line in shown)
    assert ["and", "1", "more"] in shown


def test_an_error_that_stays_does_not_go_anywhere() -> None:
    point = {"measured_us": 100.0, "given_us": 114.7, "fitted_us": 114.71}
    moved = {**point, "fitted_us": 105.0}
    found: dict[str, list[object]] = {"parameters": [], "curves": [], "kernels": [], "points": []}
    assert "stays at 14.7 %" in calibration.verdict({**found, "points": [point]})
    assert "goes from 14.7 to 5.0 %" in calibration.verdict({**found, "points": [moved]})
