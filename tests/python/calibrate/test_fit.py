"""Fits of a library: parameters that logs determine, and what stays."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from made_logs import library, log, nccl_times, noisy

import armillary as arm
from armillary import nccl
from armillary.calibrate import MeasuredTable, calibrate, curves, read
from armillary.errors import InputError


@pytest.mark.parametrize("old", [False, True])
def test_parameters_that_made_a_log_are_found(tmp_path: Path, old: bool) -> None:
    path = tmp_path / "all_reduce.log"
    truth = {
        "library.call_overhead": "12 us",
        "library.node.efficiency": 0.7,
        "library.node.simple_overhead": "50 us",
    }
    path.write_text(log(library(truth), old))
    fit = calibrate("dgx-a100", read(str(path)).tables)
    found = {p.key: p for p in fit.parameters}
    # The fill and the efficiency say the same of one number of ranks: together they are what was
    # set.
    ring = {k: found[f"library.node.{k}"].fitted for k in ("efficiency", "ramp_up")}
    assert ring["efficiency"] / (1 + ring["ramp_up"] / 14) == pytest.approx(
        0.7 / (1 + 0.44 / 14), rel=0.02
    )
    assert fit.error(lambda r: r.fitted_us) < 3
    assert fit.error(lambda r: r.fitted_us) < fit.error(lambda r: r.given_us) / 5
    assert not found["library.node.peer_latency"].found
    assert any("node.peer_latency" in note for note in fit.notes())


def test_outliers_are_named_and_move_little(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.log"
    plain = library({"library.call_overhead": "12 us"})
    path.write_text(log(lambda size: plain(size) * (5 if size in (2**10, 2**26) else 1)))
    fit = calibrate("dgx-a100", read(str(path)).tables)
    assert {r.size for r in fit.residuals if r.outlier} == {2**10, 2**26}
    assert all(abs(r.log) < 0.1 for r in fit.residuals if not r.outlier)


def test_what_the_model_leaves_becomes_corrections(tmp_path: Path) -> None:
    """A bump that no parameter makes is predicted at its sizes and between them; elsewhere nothing
    changes."""
    path = tmp_path / "all_reduce.log"
    plain = library({}, "dgx-h100")
    bump = range(2**20, 2**23 + 1)
    path.write_text(log(lambda size: plain(size) * (1.3 if size in bump else 1)))
    fit = calibrate("dgx-h100", read(str(path)).tables)
    after = library({**fit.settings}, "dgx-h100")
    for size in (2**20, 2**21, 3 * 2**20, 2**23):
        assert after(size) / plain(size) == pytest.approx(1.3, rel=0.02)
    for size in (2**10, 2**17, 2**26):
        assert after(size) / plain(size) == pytest.approx(1, rel=0.02)
    values = [(key.removeprefix("library."), value) for key, value in fit.values.items()]
    bare = arm.Platform.load("dgx-h100", {"npus": 4})._core.library_times(
        values, "all_reduce", [2**21]
    )
    four = arm.Platform.load("dgx-h100", {**fit.settings, "npus": 4})._core.library_times(
        [], "all_reduce", [2**21]
    )
    assert four == pytest.approx(bare, rel=1e-3), "corrections are of 8 GPUs"


def test_an_unknown_parameter_is_refused() -> None:
    with pytest.raises(InputError, match="no such parameter"):
        arm.Platform.load("dgx-a100")._core.library_times([("node.stop", 1.0)], "all_reduce", [8])


def test_sizes_left_out_are_predicted_without_them(tmp_path: Path) -> None:
    """A bump of a single size is in the fitted time's corrections, and not in what is said of it
    without it."""
    path = tmp_path / "all_reduce.log"
    plain = library({})
    path.write_text(log(lambda size: plain(size) * (1.1 if size == 2**22 else 1)))
    rows = calibrate("dgx-a100", read(str(path)).tables).residuals
    between = {row.size: row.between_us / plain(row.size) for row in rows}
    assert between[2**22] == pytest.approx(1, abs=0.03)
    assert all(ratio == pytest.approx(1, abs=0.1) for ratio in between.values())


def test_parts_of_a_bandwidth_are_at_most_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.log"
    path.write_text(log(library({"library.node.efficiency": 0.99})))
    found = {p.key: p for p in calibrate("dgx-a100", read(str(path)).tables).parameters}
    assert found["library.node.efficiency"].found and found["library.node.efficiency"].high <= 1


LARGE = 2**30


@pytest.mark.parametrize("seed", [1, 5, 6])
def test_one_collective_leaves_the_bandwidth_of_others_alone(seed: int) -> None:
    """On 8 H100 only small all-reduces are rings: their noise must not move what large all-gathers
    reach."""
    table = noisy("dgx-h100", seed)
    fit = calibrate("dgx-h100", [table])
    for curve in curves("dgx-h100", {}, fit, [table]):
        if not curve.measured:
            at = curve.bytes.index(LARGE)
            assert curve.after_us[at] == pytest.approx(curve.before_us[at], rel=0.005), (
                curve.collective
            )


def test_what_all_collectives_share_moves_all_of_them(tmp_path: Path) -> None:
    """A host that takes three times the platform's time for each call does so for calls that were
    not measured too."""
    given = arm.Platform.load("dgx-h100").describe()["library"]["call_overhead_ps"]
    host: dict[str, object] = {"library.call_overhead": f"{3 * given:.0f} ps"}
    path = tmp_path / "all_reduce.log"
    path.write_text(log(library(host, "dgx-h100")))
    tables = read(str(path)).tables
    fit = calibrate("dgx-h100", tables)
    truth = arm.Platform.load("dgx-h100", host)._core
    for curve in curves("dgx-h100", {}, fit, tables):
        if curve.collective == "broadcast":
            assert list(curve.after_us) == pytest.approx(
                truth.library_times([], "broadcast", list(curve.bytes)), rel=0.02
            )


def test_one_small_time_sets_the_share_of_the_host() -> None:
    """An empty call that takes 40 us takes that in every collective, and no large one changes. A
    time that the device alone explains, and one between nodes, say nothing of a host."""
    table = MeasuredTable("one.log", "all_gather", 8, ((2**10, 40.0),))
    fit = calibrate("dgx-h100", [table])
    assert fit.values == {"library.min_call_interval": 40.0}
    before, after = (
        arm.Platform.load("dgx-h100", settings)._core for settings in ({}, fit.settings)
    )
    for kind in ("all_reduce", "all_gather", "all_to_all"):
        found = after.library_times([], kind, [2**10, 2**28])
        known = before.library_times([], kind, [2**28])
        assert found is not None
        assert known is not None
        assert found == [pytest.approx(40), known[0]]
    fast = calibrate("dgx-h100", [replace(table, points=((2**10, 3.0),))])
    far = calibrate("dgx-h100-16n", [replace(table, ranks=16, points=((2**10, 99.0),))])
    for other in (fast, far):
        assert "library.min_call_interval" not in other.values


def test_corrections_of_other_collectives_are_carried_over(tmp_path: Path) -> None:
    """A second calibration, of another collective, leaves the times of the first one."""
    first = tmp_path / "first.yml"
    gathered = nccl_times("all_gather", 1.2)
    settings = calibrate("dgx-a100", [gathered]).settings
    first.write_text(arm.Platform.load("dgx-a100", settings).to_yaml())
    fit = calibrate(str(first), [noisy("dgx-a100", 3)])
    again = arm.Platform.load(str(first), fit.settings)
    kinds = {each["collective"] for each in again.describe()["library"]["corrections"]}
    assert kinds >= {"all_gather", "all_reduce"}
    wanted = [nccl.measured_bytes("all_gather", size, 8) for size, _ in gathered.points]
    times = again._core.library_times([], "all_gather", wanted)
    assert times == pytest.approx([us for _, us in gathered.points], rel=0.02)
