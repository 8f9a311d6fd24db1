"""The page of a sweep: what it shows against what was put in, its size, and how a browser takes
it."""

from __future__ import annotations

import random
from pathlib import Path

import browser
import polars as pl
import pytest
import toy_studies
from conftest import Armillary
from frames import framed
from hypothesis import given
from hypothesis import strategies as st
from playwright.sync_api import Browser, expect

import armillary as arm
from armillary.errors import InputError
from armillary.sweep import Sweep, axis, charts, load, parallel
from armillary.sweep.view import Measure, View, spread

pytestmark = pytest.mark.usefixtures("workers_in_copies")

BANDWIDTHS = [12.5, 25, 50, 100, 200, 400]
ERROR = "dgx.yml: platform: <b>1024</b> NPUs do not fit"


def made(count: int, failures: float = 0.02) -> pl.DataFrame:
    """A table of `count` points: the bandwidth decides most, the latency little, the backend
    nothing."""
    drawn, rows = random.Random(1), []
    for index in range(count):
        bandwidth, chunks = drawn.choice(BANDWIDTHS), drawn.choice([1, 4, 16, 64])
        latency, backend = round(drawn.uniform(0.5, 5), 3), drawn.choice(["analytical", "link"])
        failed = drawn.random() < failures
        step = None if failed else 1e9 * (1 + 8 / bandwidth + chunks / 640 + latency / 100)
        error = ERROR if failed else None
        rows.append((index, f"{bandwidth:g} GB/s", chunks, f"{latency} us", backend, step, error))
    names = [
        "index",
        "platform.links[1].bandwidth",
        "chunks",
        "platform.links[1].latency",
        "backend",
        "step_time_ns",
    ]
    frame = pl.DataFrame(rows, schema=[*names, "error"], orient="row", infer_schema_length=None)
    empty = [
        pl.lit(None, dtype=pl.Float64).alias(name)
        for name in ("exposed_comm_ns", "mfu", "samples_per_s")
    ]
    return frame.with_columns(
        pl.lit(1024).alias("ranks"), pl.lit(None, dtype=pl.Int64).alias("memory_bytes"), *empty
    )


def view(count: int = 500) -> View:
    return View("networks", framed(made(count)))


@pytest.mark.parametrize(("name", "more"), [("step_time_ns", False), ("samples_per_s", True)])
def test_points_within_the_interval_of_the_best_are_counted(name: str, more: bool) -> None:
    """Steps of 1 to 2 s with an interval of 0.8 to 1.25: those up to 1.25 s are alike."""
    steps = [2.0, 1.3, 1.0, 1.2, 1.25, 1.6]
    frame = pl.DataFrame(
        {
            "index": range(6),
            "x": range(6),
            "step_time_ns": [1e9 * step for step in steps],
            "samples_per_s": [512 / step for step in steps],
            "step_low_ns": [0.8e9 * step for step in steps],
            "step_high_ns": [1.25e9 * step for step in steps],
            "error": [None] * 6,
        },
        schema_overrides={"error": pl.String},
    )
    found = View("steps", framed(frame), ((name, more),))
    assert found.alike == [3, 4]
    assert found.said_alike is not None
    assert "2 other points" in found.said_alike
    assert "0.80 to 1.25 times" in found.said_alike
    # Its own interval may be wider than that of the best.
    wide = pl.when(pl.col("index") == 1).then(0.7e9 * 1.3).otherwise(pl.col("step_low_ns"))
    assert View("steps", framed(frame.with_columns(wide.alias("step_low_ns")))).alike == [3, 4, 1]
    # Not where nothing is known, or the objective is not the step's.
    unknown = pl.lit(None, dtype=pl.Float64).alias("step_high_ns")
    assert View("steps", framed(frame.with_columns(unknown))).said_alike is None
    assert View("steps", framed(frame.drop("step_low_ns"))).said_alike is None
    assert View("steps", framed(frame), (("x", False),)).said_alike is None


def test_influence_is_that_of_the_numbers_put_in() -> None:
    seen = view(4000)
    assert [each.name.rpartition(".")[2] for each in seen.axes] == [
        "bandwidth",
        "chunks",
        "latency",
        "backend",
    ]
    found = [seen.influence(each) for each in seen.axes]
    assert found[0] > 0.8
    assert found[3] < 0.01
    assert sum(found) == pytest.approx(1, abs=0.05)


def test_epsilon_squared_of_a_worked_example() -> None:
    """By hand: values -1, 0, 1 and 3, 4, 5; 28 in all, 4 within, so 1 - 5/4 * 4/28."""
    of = axis.axis("kind", ["a", "a", "a", "b", "b", "b"])
    assert axis.explained(of, [-1.0, 0.0, 1.0, 3.0, 4.0, 5.0]) == pytest.approx(1 - 5 / 4 * 4 / 28)


@given(st.lists(st.floats(1, 1e6), min_size=2, max_size=200))
def test_bins_are_in_order_and_hold_every_point(numbers: list[float]) -> None:
    of = axis.axis("x", numbers)
    assert len(of.bins) <= axis.MOST_BINS
    assert sorted(set(of.bin_of)) == list(range(len(of.bins)))
    by_number = sorted(zip(numbers, of.bin_of, of.places, strict=True))
    assert [each[1] for each in by_number] == sorted(of.bin_of)
    assert [each[2] for each in by_number] == sorted(of.places)
    assert all(0 <= place <= 1 for place in of.places)


@given(
    st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1, max_size=60),
    st.booleans(),
)
def test_the_front_is_what_nothing_beats(points: list[tuple[int, int]], more: bool) -> None:
    frame = made(len(points), failures=0).with_columns(
        pl.Series("step_time_ns", [float(y + 1) for _, y in points])
    )
    seen = View("x", framed(frame), (("step_time_ns", more),))
    front = seen.front(Measure("cost", "cost", [float(x) for x, _ in points], False))

    def beats(one: tuple[int, int], other: tuple[int, int]) -> bool:
        good = one[1] >= other[1] if more else one[1] <= other[1]
        return one[0] <= other[0] and good and one != other

    wanted = {point for point in points if not any(beats(other, point) for other in points)}
    assert {points[row] for row in front} == wanted
    assert len(front) == len(wanted)


@given(st.integers(2, 2000), st.integers(2, 50))
def test_a_sample_keeps_both_ends(count: int, most: int) -> None:
    found = spread(range(count), most)
    assert (found[0], found[-1], len(found)) == (0, count - 1, min(count, most))
    assert found == sorted(set(found))


def test_cells_hold_every_point_once_a_pair_and_the_best_of_them() -> None:
    seen = view()
    chart = charts.heat_map(seen, ("chunks", "backend"))
    rows = [
        row for row in chart.records() if row["pair"].startswith("chunks (across), backend (up)")
    ]
    assert sum(row["points"] for row in rows) == seen.ran.height
    for row in rows:
        steps = [
            each["step_time_ns"]
            for each in seen.ran.rows()
            if (each["chunks"], each["backend"]) == (int(row["across"]), row["up"])
        ]
        assert row["step time (s)"] == pytest.approx(min(steps) / 1e9, rel=1e-5)


def test_a_parameter_that_is_none_is_named() -> None:
    with pytest.raises(InputError, match=r"(?s)colour.*chunks"):
        Sweep("x", framed(made(50)), 0, 0).page(("colour", "chunks"))


def test_ten_thousand_points_are_a_small_page_that_says_what_it_leaves_out() -> None:
    frame = made(10_000)
    html = Sweep("networks", framed(frame), frame["error"].count(), 0).html()
    assert len(html.encode()) < 5_000_000
    assert f"Of {frame.height - frame['error'].count():,} points 300 are drawn" in html
    assert "&lt;b&gt;1024&lt;/b&gt;" in html


def test_objectives_are_those_of_the_search() -> None:
    frame = made(200).with_columns(pl.col("step_time_ns").alias("samples_per_s") * 2)
    seen = View("x", framed(frame), (("samples_per_s", True), ("step_time_ns", False)))
    best = seen.ran["samples_per_s"].index(max(seen.ran["samples_per_s"]))
    assert seen.ranking[0] == best
    assert seen.against is not None
    assert seen.against.name == "step_time_ns"


@pytest.mark.parametrize("count", [1, 2])
def test_few_points_and_failed_ones_have_a_page(count: int) -> None:
    assert "Best points" in Sweep("x", framed(made(count, 0)), 0, 0).html()
    assert "No point ran" in Sweep("x", framed(made(count, 1.1)), count, 0).html()


def test_written_beside_the_table_and_again(armillary: Armillary, tmp_path: Path) -> None:
    study = toy_studies.write(tmp_path, toy_studies.study(constraints=["chunks != 2"]))
    armillary("sweep", study, "-o", tmp_path / "r").check_returncode()
    page = (tmp_path / "r/report.html").read_text(encoding="utf-8")
    found = load(tmp_path / "r")
    assert (found.name, found.refused, found.failed, found.table.height) == ("study", 4, 0, 8)
    assert found.html() == page
    assert arm.sweep(study).html() == page
    (tmp_path / "r/report.html").unlink()
    armillary("report", tmp_path / "r", "--figures", tmp_path / "figures").check_returncode()
    assert (tmp_path / "r/report.html").read_text(encoding="utf-8") == page
    assert (
        (tmp_path / "figures/heat-map.csv").read_text(encoding="utf-8").startswith("pair,across,")
    )
    chosen = armillary("report", tmp_path / "r/table.parquet", "-o", "-", "--heat", "outer,chunks")
    assert "First shown: outer (across), chunks (up)" in chosen.stdout
    wrong = armillary("report", tmp_path / "r", "--heat", "outer")
    assert (wrong.returncode, "is not a pair of parameters" in wrong.stderr) == (2, True)
    with pytest.raises(InputError, match=r"not a table of a sweep|No such file"):
        load(tmp_path)


def test_in_a_browser(tmp_path: Path, running: Browser) -> None:
    frame = made(2000)
    file = tmp_path / "report.html"
    Sweep("networks", framed(frame), frame["error"].count(), 3).html(file)
    with browser.visit(running, file) as seen:
        lines = seen.page.locator("#parallel .live path[aria-roledescription='line mark']")
        assert lines.count() == parallel.LINES
        assert seen.ask("document.documentElement.scrollWidth") == 1280
        browser.resize(seen, 390)
        assert lines.count() == parallel.LINES
        assert seen.ask("document.documentElement.scrollWidth") == 390
        cells = seen.page.locator("#heat-map .live path[aria-roledescription='rect mark']")
        before = cells.count()
        seen.page.select_option("#heat-map select", index=1)
        expect(cells).not_to_have_count(before)
        assert seen.complaints == []
        assert seen.requests == []


def test_a_title_says_what_is_compared() -> None:
    named = Sweep("/home/me/l405", framed(made(50)), 0, 0, subject="llama-3-405b on dgx-h100-16n")
    assert named.page().title == (
        "llama-3-405b on dgx-h100-16n: step time by bandwidth, chunks, latency and backend"
    )
    assert (
        Sweep("/home/me/l405", framed(made(50)), 0, 0)
        .page()
        .title.startswith("Step time by bandwidth")
    )


def test_cells_of_heat_maps_have_units() -> None:
    rows = charts.heat_map(view(), ("chunks", "backend")).records()
    assert {row["text"].partition(" ")[2] for row in rows if row["points"]} == {"s"}


def test_few_lines_stand_out_and_axes_have_units() -> None:
    rows = parallel.parallel(view(2000)).records()
    assert {"bandwidth (GB/s)", "latency (us)", "step time (s)"} <= {row["axis"] for row in rows}
    named = {row["point"]: row["points"] for row in rows}
    groups = list(named.values())
    assert groups.count("the best point") == 1
    assert groups.count("the next 9") == 9
    assert groups.count("the others") == parallel.LINES - 10


@pytest.mark.parametrize("count", [1, 2, 3, 5, 30])
def test_groups_of_lines_are_complete(count: int) -> None:
    rows = parallel.parallel(view(count)).records() if count > 1 else []
    assert count == 1 or sum(row["points"] == "the best point" for row in rows) > 0
