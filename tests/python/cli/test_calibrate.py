"""`armillary calibrate`: logs as they come, parameters that are told, and what is not."""

from __future__ import annotations

import io
import itertools
import json
import math
import operator
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random

import pytest
from conftest import Armillary
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

import armillary as arm
from armillary import nccl
from armillary.calibrate import Table, calibrate, corrections, curves, read
from armillary.calibrate.case import cases, parameters
from armillary.calibrate.search import Search, inverse_diagonal
from armillary.errors import InputError
from armillary.report import calibration
from armillary.validation.sweeps import SEND, Sweep, sweeps

HEAD = "# nThread 1 nGpus 8 minBytes 8\n" + "".join(
    f"#  Rank {r:2d} Pid 1 on n device {r}\n" for r in range(8)
)
SIZES = [2**k for k in range(3, 34)]


def log(times: Callable[[int], float], old: bool = False) -> str:
    """A log of 8 ranks; `old`: without the column of the root, as before version 2.11."""
    lines = [HEAD, "#       size         count    type   redop     time   algbw   busbw  error\n"]
    for size in SIZES:
        time = times(size)
        algbw = size / time / 1e3
        once = f"{time:.4g} {algbw:.2f} {algbw * 1.75:.2f} {'0e+00' if old else '0'}"
        lines.append(f"{size:>12} {size // 4:>12} float sum {'' if old else '-1'} {once} {once}\n")
    return "".join(lines)


def library(settings: dict[str, object]) -> Callable[[int], float]:
    """What a library of known parameters takes."""
    platform = arm.Platform.load("dgx-a100", settings)

    def time(size: int) -> float:
        found = platform._core.library_choice("all_reduce", size)
        assert found is not None
        return found[2] / 1e6

    return time


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


def test_broken_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.log"
    good = log(library({}))
    path.write_text(
        good
        + "garbage\n 1024 256 float sum -1 nan x\n 2048 512 float sum -1 10.0 99.0 1.0 0\n"
        + good
    )
    found = read(str(path))
    assert found.skipped == 2
    assert [len(table.points) for table in found.tables] == [len(SIZES)] * 2
    assert {table.ranks for table in found.tables} == {8}


def test_what_nothing_tells_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "x.log"
    path.write_text("no table\n")
    with pytest.raises(InputError, match="holds no table"):
        read(str(path))
    path.write_text("1048576 262144 float none -1 100.0 10.49 9.17 0\n")
    with pytest.raises(InputError, match="the collective is unknown"):
        read(str(path))
    assert read(str(path), "all_gather").tables[0].ranks == 8


def test_a_published_log_fits_and_predicts_other_sizes() -> None:
    """Every other size of a measured DGX H100 held out (NVIDIA/dgxc-benchmarking): within 10, 8 and
    3 percent."""
    from armillary.calibrate import Table
    from armillary.validation import collectives

    sweep = next(s for s in collectives.sweeps() if s.name == "h100x8_dgx_allreduce_nvidia")
    fit = calibrate("dgx-h100", [Table("", "all_reduce", 8, sweep.points[::2])])
    platform = arm.Platform.load("dgx-h100", fit.settings)
    logs: dict[int, list[float]] = {}
    for size, measured in sweep.points[1::2]:
        count = nccl.element_count("all_reduce", size, 8, 4)
        found = platform._core.library_choice("all_reduce", count * 4)
        assert found is not None
        logs.setdefault(collectives.band(size), []).append(abs(math.log(found[2] / 1e6 / measured)))
    errors = [math.exp(sum(each) / len(each)) - 1 for _, each in sorted(logs.items())]
    assert errors[0] < 0.10 and errors[1] < 0.08 and errors[2] < 0.03


def test_the_verb_writes_a_platform_that_reads_back(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "all_reduce.log").write_text(log(library({"library.call_overhead": "12 us"})))
    run = armillary(
        "calibrate",
        "all_reduce.log",
        "-p",
        "dgx-a100",
        "-o",
        "mine.yml",
        "--json",
        "-",
        cwd=tmp_path,
    )
    assert run.returncode == 0, run.stderr
    result = json.loads(run.stdout)
    assert result["schema"] == "armillary.calibration/1"
    assert len(result["points"]) == len(SIZES)
    mine = arm.Platform.load(tmp_path / "mine.yml")
    assert mine.name == "mine" and "all_reduce.log" in mine.source and mine.has_library


def test_a_platform_without_library_is_refused(armillary: Armillary, tmp_path: Path) -> None:
    (tmp_path / "all_reduce.log").write_text(log(library({})))
    run = armillary(
        "calibrate", "all_reduce.log", "-p", "paper-w-2d", "--set", "npus=8", cwd=tmp_path
    )
    assert run.returncode == 2
    assert "has no library to calibrate" in run.stderr or "dimension" in run.stderr


def test_what_the_model_leaves_becomes_corrections(tmp_path: Path) -> None:
    """A bump that no parameter makes is predicted at its sizes and between them; elsewhere nothing
    changes."""
    path = tmp_path / "all_reduce.log"
    plain = library({})
    bump = range(2**20, 2**23 + 1)
    path.write_text(log(lambda size: plain(size) * (1.3 if size in bump else 1)))
    fit = calibrate("dgx-a100", read(str(path)).tables)
    after = library({**fit.settings})
    for size in (2**20, 2**21, 3 * 2**20, 2**23):
        assert after(size) / plain(size) == pytest.approx(1.3, rel=0.02)
    for size in (2**10, 2**17, 2**26):
        assert after(size) / plain(size) == pytest.approx(1, rel=0.02)
    values = [(key.removeprefix("library."), value) for key, value in fit.values.items()]
    bare = arm.Platform.load("dgx-a100", {"npus": 4})._core.library_times(
        values, "all_reduce", [2**21]
    )
    four = arm.Platform.load("dgx-a100", {**fit.settings, "npus": 4})._core.library_times(
        [], "all_reduce", [2**21]
    )
    assert four == pytest.approx(bare, rel=1e-3), "corrections are of 8 GPUs"


def test_corrections_are_interpolated_as_the_simulator_does() -> None:
    found = corrections.Correction(
        "all_reduce", 8, 1, ((2**10, 2.0), (2**12, 0.5), (2**20, 1.5), (2**26, 1.1))
    )
    settings = {"library.corrections": f"[{found.setting()}]"}
    sizes = [8, 2**10, 1500, 2**12, 10**5, 2**20, 3 * 10**6, 10**7, 2**26, 2**30]
    with_, without = (arm.Platform.load("dgx-a100", each)._core for each in (settings, {}))
    after = with_.library_times([], "all_reduce", sizes)
    before = without.library_times([], "all_reduce", sizes)
    at = without.library_times([], "all_reduce", [size for size, _ in found.points])
    assert after is not None and before is not None and at is not None
    known = corrections.known(found.points, at)
    expected = [
        corrections.corrected(known, size, time) for time, size in zip(before, sizes, strict=True)
    ]
    assert after == pytest.approx(expected, rel=1e-6)
    assert after[1] > after[2] > after[3] < after[4] < after[5] < after[6] < after[7] < after[8]


FACTORS = st.lists(st.floats(0.3, 3), min_size=3, max_size=12)


@given(FACTORS, st.lists(st.floats(1.0, 4.0), min_size=40, max_size=40))
def test_more_bytes_take_less_only_where_measured(
    factors: list[float], growth: list[float]
) -> None:
    """Of a model that grows, whatever the factors: between two known sizes times go from the one to
    the other."""
    model = [float(value) for value in itertools.accumulate(growth, operator.mul)]
    points = [(4**at, factor) for at, factor in enumerate(factors)]
    known = corrections.known(points, model[: 3 * len(points) : 3])
    for low, high, first in zip(known, known[1:], range(0, 99, 3), strict=False):
        between = [
            corrections.corrected(known, low.size * 2 + at, model[first + 1 + at]) for at in (0, 1)
        ]
        path = [low.us, *between, high.us] if low.size > 1 else [low.us, between[0], high.us]
        assert path == pytest.approx(sorted(path, reverse=high.us < low.us), rel=1e-9)


def test_single_outliers_make_no_correction() -> None:
    ratios = [(2**k, 5.0 if k == 12 else 1.0) for k in range(8, 20)]
    assert dict(corrections.factors(ratios))[2**12] == pytest.approx(math.exp(0.15))
    assert corrections.factors(ratios[:2]) == ()


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


def test_what_only_together_is_told_is_not_told_alone(tmp_path: Path) -> None:
    """One number of ranks: efficiency and fill make one bandwidth; of the two together it is as
    sharp as ever."""
    path = tmp_path / "all_reduce.log"
    path.write_text(log(library({"library.call_overhead": "12 us"})))
    (measured,) = cases("dgx-a100", read(str(path)).tables, {})
    given = {
        "library.node.efficiency": 0.8,
        "library.node.ramp_up": 0.44,
        "library.call_overhead": 12.0,
    }
    search = Search([measured], given)
    together = search.intervals(list(given), given)
    alone = {key: search.interval(key, given) for key in given}
    assert together["library.node.ramp_up"] == pytest.approx((0.44 / 3, 0.44 * 3))
    assert alone["library.node.ramp_up"][1] < 0.44 * 2
    assert together["library.call_overhead"][1] < 13


@given(st.lists(st.lists(st.floats(-1, 1), min_size=4, max_size=4), min_size=4, max_size=4))
def test_inverse_of_a_matrix(rows: list[list[float]]) -> None:
    """Its diagonal times the determinant are the determinants of the minors (Cramer's rule)."""
    matrix = [[sum(map(operator.mul, a, b)) + (0.5 if a is b else 0.0) for b in rows] for a in rows]

    def determinant(of: list[list[float]]) -> float:
        minors = ([row[:at] + row[at + 1 :] for row in of[1:]] for at in range(len(of)))
        return (
            sum((-1) ** at * of[0][at] * determinant(minor) for at, minor in enumerate(minors))
            if of
            else 1.0
        )

    for at, value in enumerate(inverse_diagonal(matrix)):
        minor = [row[:at] + row[at + 1 :] for row in matrix[:at] + matrix[at + 1 :]]
        assert value * determinant(matrix) == pytest.approx(determinant(minor), rel=1e-6)


class Valleys:
    """Three all-reduces of rings or trees, whichever are faster, and one of rings: rings reach
    0.73, trees less."""

    measured = (1 / 0.73,) * 4

    def times(self, values: Mapping[str, float]) -> list[float]:
        ring, tree = values["ring"], 2 * values["ring"] * values["tree"]
        return [1 / max(ring, tree)] * 3 + [1 / ring]


def test_a_better_valley_is_found_behind_a_ridge() -> None:
    """From slow rings single steps lead to fast trees, and the last measurement is missed by a
    third."""
    search = Search([Valleys()], {"ring": 0.5, "tree": 0.9})
    assert search.error(search.descend(["ring", "tree"])) > 0.05
    found = search.explore(["ring", "tree"])
    assert found["ring"] == pytest.approx(0.73, rel=0.02) and found["tree"] < 0.52


def test_what_moved_without_being_told_is_shown() -> None:
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


def test_parts_of_a_bandwidth_are_at_most_all_of_it(tmp_path: Path) -> None:
    path = tmp_path / "all_reduce.log"
    path.write_text(log(library({"library.node.efficiency": 0.99})))
    found = {p.key: p for p in calibrate("dgx-a100", read(str(path)).tables).parameters}
    assert found["library.node.efficiency"].found and found["library.node.efficiency"].high <= 1


LARGE = 2**30


def noisy(preset: str, seed: int, slower: float = 1.03, spread: float = 0.03) -> Table:
    """Nine sizes of an all-reduce of 8 ranks: the preset's times, a little slower and with
    noise."""
    sizes = [2**k for k in (13, 16, 18, 20, 23, 26, 28, 30, 33)]
    times = arm.Platform.load(preset)._core.library_times([], "all_reduce", sizes)
    assert times is not None
    random = Random(seed)
    points = [
        (size, us * slower * math.exp(random.gauss(0, spread)))
        for size, us in zip(sizes, times, strict=True)
    ]
    return Table("all_reduce.log", "all_reduce", 8, tuple(points))


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
    """A host that takes 12 us for each call, instead of 30, does so for calls that were not
    measured too."""
    path = tmp_path / "all_reduce.log"
    path.write_text(log(library({"library.call_overhead": "12 us"})))
    tables = read(str(path)).tables
    fit = calibrate("dgx-a100", tables)
    truth = arm.Platform.load("dgx-a100", {"library.call_overhead": "12 us"})._core
    for curve in curves("dgx-a100", {}, fit, tables):
        if curve.collective == "broadcast":
            assert list(curve.after_us) == pytest.approx(
                truth.library_times([], "broadcast", list(curve.bytes)), rel=0.02
            )


def test_published_sweeps_of_other_collectives_stay_predicted() -> None:
    """Other collectives, on machines whose all-reduces were published too. The presets were fitted
    to both."""
    errors: dict[str, list[float]] = {"before": [], "after": []}
    for machine in published_machines():
        reduced = [
            Table(s.name, s.collective, s.gpus, s.points)
            for s in machine
            if s.collective == "all_reduce"
        ]
        others = [s for s in machine if s.collective != "all_reduce"]
        fit = calibrate(machine[0].preset, reduced, dict(machine[0].settings))
        for sweep in others:
            (case,) = cases(
                sweep.preset,
                [Table(sweep.name, sweep.collective, sweep.gpus, sweep.points)],
                dict(sweep.settings),
            )
            known = parameters(case.platform)
            after = case.times({key: value for key, value in fit.values.items() if key in known})
            for which, times in (("before", case.times_before()), ("after", after)):
                logs = [
                    abs(math.log(ours / us)) for ours, us in zip(times, case.measured, strict=True)
                ]
                errors[which].append(100 * math.expm1(sum(logs) / len(logs)))
    means = {which: sum(each) / len(each) for which, each in errors.items()}
    assert len(errors["after"]) >= 6
    assert means["after"] < means["before"] + 3, means


def published_machines() -> list[list[Sweep]]:
    """Machines with all-reduces and other collectives; the many versions on Slingshot are left out
    for time."""
    machines: dict[tuple[object, ...], list[Sweep]] = {}
    for sweep in sweeps():
        if sweep.fair and sweep.collective != SEND and not sweep.preset.startswith("polaris"):
            source = sweep.source.split("@")[0].split(" ")[0]
            machines.setdefault((source, sweep.preset, sweep.settings, sweep.gpus), []).append(
                sweep
            )
    return [
        found
        for found in machines.values()
        if {s.collective == "all_reduce" for s in found} == {True, False}
    ]


def test_corrections_of_other_collectives_are_carried_over(tmp_path: Path) -> None:
    """A second calibration, of another collective, leaves the times of the first one."""
    first = tmp_path / "first.yml"
    gathered = nccl_times("all_gather", 1.2)
    settings = calibrate("dgx-a100", [gathered]).settings
    first.write_text(arm.Platform.load("dgx-a100", settings).to_yaml())
    fit = calibrate(str(first), [noisy("dgx-a100", 3)])
    again = arm.Platform.load(str(first), fit.settings)
    assert {each["collective"] for each in again.describe()["library"]["corrections"]} == {
        "all_gather",
        "all_reduce",
    }
    wanted = [nccl.measured_bytes("all_gather", size, 8) for size, _ in gathered.points]
    times = again._core.library_times([], "all_gather", wanted)
    assert times == pytest.approx([us for _, us in gathered.points], rel=0.02)


def nccl_times(kind: str, slower: float) -> Table:
    sizes = [2**k for k in range(14, 31, 2)]
    wanted = [nccl.measured_bytes(kind, size, 8) for size in sizes]
    times = arm.Platform.load("dgx-a100")._core.library_times([], kind, wanted)
    assert times is not None
    return Table(
        "x.log", kind, 8, tuple((size, us * slower) for size, us in zip(sizes, times, strict=True))
    )


def test_the_page_shows_before_and_after(armillary: Armillary, tmp_path: Path) -> None:
    path, page, out = tmp_path / "all_reduce.log", tmp_path / "c.html", tmp_path / "c.json"
    path.write_text(log(library({"library.call_overhead": "12 us"})))
    done = armillary(
        "calibrate", str(path), "-p", "dgx-a100", "--report", str(page), "--json", str(out)
    )
    assert "collectives without a measurement change by at most" in " ".join(done.stdout.split())
    found = json.loads(out.read_text())
    measured = [curve for curve in found["curves"] if curve["measured"]]
    assert [curve["collective"] for curve in measured] == ["all_reduce"]
    assert len(measured[0]["bytes"]) > len(SIZES)
    text = page.read_text()
    for words in (
        "Calibration of dgx-a100",
        "Collectives without a measurement",
        "bus bandwidth",
        "kept",
    ):
        assert words in text
