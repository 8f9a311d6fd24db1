"""`armillary traffic`: curves, saturation, files, and what is refused."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import armillary as arm
from armillary.cli import output
from armillary.cli.app import main
from armillary.traffic.saturation import bracket

RING = "topology: Ring(8)\nlinks: {bandwidth: 16 GB/s, per: link, latency: 1 ns}\n"


@pytest.fixture
def ring(tmp_path: Path) -> str:
    (tmp_path / "ring.yml").write_text(RING, encoding="utf-8")
    return str(tmp_path / "ring.yml")


def curves(arguments: list[str], folder: Path) -> list[dict[str, Any]]:
    file = folder / "found.json"
    assert main(["traffic", *arguments, "--json", str(file)]) == 0
    found: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))["curves"]
    return found


def test_tornado_saturates_where_its_links_are_full(ring: str, tmp_path: Path) -> None:
    """Each NPU of a ring of 8 crosses 3 links one way round: a third of one link, and an NPU has
    two (Dally and Towles, section 3.2). On flits virtual channels and the dateline cost some."""
    arguments = ["-p", ring, "--backend", "link,flit", "--size", "64", "--pattern", "tornado"]
    link, flit = curves([*arguments, "--tolerance", "5%"], tmp_path)
    bound = 1 / 6
    assert (link["backend"], flit["backend"]) == ("link", "flit")
    assert 0.8 * bound < link["saturation"][0] <= bound
    assert 0.6 * bound < flit["saturation"][0] <= bound
    assert link["saturation"][1] <= 1.06 * link["saturation"][0]
    steady = [point for point in flit["points"] if point["outcome"] == "steady"]
    means = [point["latency"]["mean_ns"] for point in steady]
    assert len(steady) >= 8
    assert means == sorted(means)
    for point in steady:
        assert point["accepted_gb_per_s"] == pytest.approx(point["offered_gb_per_s"], rel=0.05)
        assert point["links"][0]["utilisation"] <= 1


@pytest.mark.parametrize("backend", ["analytical", "link", "flow", "packet", "flit"])
def test_every_backend_carries_it(ring: str, backend: str, tmp_path: Path) -> None:
    arguments = ["-p", ring, "--backend", backend, "--size", "256", "--loads", "2%,0.1 GB/s"]
    [curve] = curves(arguments, tmp_path)
    assert curve["saturation"] is None
    assert [point["outcome"] for point in curve["points"]] == ["steady", "steady"]
    latency = curve["points"][0]["latency"]
    assert latency["min_ns"] <= latency["p50_ns"] <= latency["p99_ns"] <= latency["max_ns"]
    assert latency["mean_ns"] == pytest.approx(curve["alone_ns"], rel=0.2)
    assert curve["points"][1]["load"] == pytest.approx(0.1 / 32)


def test_an_interrupted_run_has_the_points_that_are_finished(
    ring: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Ctrl-C after the first point. The second one may have ended by then, too."""

    @contextlib.contextmanager
    def progress(_what: str) -> Iterator[Callable[[float, float], None]]:
        yield interrupt

    def interrupt(_done: float, _now: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(output, "progress", progress)
    file = tmp_path / "found.json"
    loads = ["-p", ring, "--backend", "link", "--loads", "2%,5%", "-j", "1"]
    with pytest.raises(SystemExit) as ended:
        main(["traffic", *loads, "--json", str(file)])
    assert ended.value.code == 130
    found = json.loads(file.read_text(encoding="utf-8"))
    (curve,) = found["curves"]
    number = len(curve["points"])
    assert 1 <= number <= 2
    assert curve["points"][0]["load"] == 0.02
    finished = "1 point" if number == 1 else "2 points"
    assert found["warnings"][-1] == f"interrupted: {finished} finished"


def test_the_number_of_workers_changes_nothing(ring: str, tmp_path: Path) -> None:
    arguments = ["-p", ring, "--size", "64", "--backend", "link", "--pattern", "uniform;ring"]
    texts = []
    for workers in ("1", "3"):
        file = tmp_path / f"{workers}.json"
        assert main(["traffic", *arguments, "-j", workers, "--json", str(file)]) == 0
        texts.append(file.read_bytes())
    assert texts[0] == texts[1]


def test_a_file_of_flows_and_a_page(
    ring: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flows, page, plot = tmp_path / "flows.csv", tmp_path / "page.html", tmp_path / "plot.svg"
    flows.write_text("source,destination,weight\n0,1,3\n# idle\n2,3,1\n", encoding="utf-8")
    arguments = ["traffic", "-p", ring, "--backend", "link", "--pattern", str(flows)]
    code = main([*arguments, "--loads", "20%", "--report", str(page), "--plot", str(plot)])
    shown = capsys.readouterr().out
    assert code == 0
    assert "npu0 -> npu1 (dimension 1) 41.7%" in " ".join(shown.split())
    assert "Busiest links" in page.read_text(encoding="utf-8")
    assert plot.read_text(encoding="utf-8").startswith("<svg")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--pattern", "spiral"], 'unknown pattern "spiral"'),
        (["--pattern", "hotspot:9:10%"], "NPU 9 does not exist"),
        (["--pattern", "hotspot:1:150%"], "invalid hotspot"),
        (["--pattern", "nowhere.csv"], "nowhere.csv"),
        (["--loads", "fast"], 'invalid load: "fast"'),
        (["--loads", "0"], "invalid loads: 0"),
        (["--size", "0 B"], "invalid size"),
        (["--backend", "smoke"], 'unknown backend "smoke"'),
        (["--arrivals", "never"], 'unknown arrivals "never"'),
        (["--precision", "none"], "invalid share"),
        (["--plot", "x.gif"], "unknown kind of picture"),
        (["--set", "topology=Ring(6)", "--pattern", "shuffle"], "not a power of two"),
    ],
)
def test_what_is_wrong_is_named(
    ring: str, arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as end:
        main(["traffic", "-p", ring, *arguments])
    assert end.value.code == 2
    assert words in capsys.readouterr().err


def test_bad_lines_of_a_file_are_all_named(
    ring: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flows = tmp_path / "flows.csv"
    flows.write_text("0,1\n0,one\n1,2,-3\n", encoding="utf-8")
    with pytest.raises(SystemExit):
        main(["traffic", "-p", ring, "--pattern", str(flows)])
    shown = capsys.readouterr().err
    assert "line 2" in shown
    assert "line 3" in shown
    assert "line 1" not in shown


def test_the_bracket_is_as_narrow_as_asked_for() -> None:
    low, high = bracket(lambda loads: [load >= 0.37 for load in loads], 0.01)
    assert high is not None
    assert low < 0.37 <= high <= low * 1.011
    assert bracket(lambda loads: [load >= 2.5 for load in loads], 0.1)[0] < 2.5
    assert bracket(lambda loads: [False for _ in loads], 0.1)[1] is None


def test_in_python() -> None:
    platform = arm.Platform("R(4)", bandwidth="16 GB/s", latency="10 ns")
    found = arm.traffic(platform, ["ring"], networks=["link"], size=160, loads=[0.1])
    point = found.curves[0].points[0]
    assert point.latency["min_ns"] == pytest.approx(10 + 160 / 16)
    with pytest.raises(arm.InputError, match="invalid precision"):
        arm.traffic(platform, precision=7)


@pytest.mark.parametrize("backend", ["link", "flow", "packet", "flit"])
def test_no_link_sends_for_longer_than_time_passes(backend: str, tmp_path: Path) -> None:
    """On a ring of 4, a message crosses 4/3 links on average, and an NPU has two to send by. So at
    a load of 30 % links are in use for 40 % of the time, and at 90 % they are full."""
    file = tmp_path / "ring.yml"
    file.write_text("topology: Ring(4)\nlinks: {bandwidth: 16 GB/s, per: link, latency: 1 us}\n")
    arguments = ["-p", str(file), "--backend", backend, "--loads", "30%,70%,90%"]
    [curve] = curves([*arguments, "--messages-max", "20000"], tmp_path)
    for point in curve["points"]:
        assert all(0 <= link["utilisation"] <= 1 for link in point["links"])
        assert point["links"][0]["gb_per_s"] <= 16.001
    if backend in ("link", "flow"):
        assert curve["points"][0]["mean_utilisation"] == pytest.approx(0.4, rel=0.05)
        assert curve["points"][2]["links"][0]["utilisation"] > 0.97
    elif backend == "packet":  # with headers
        assert 0.4 < curve["points"][0]["mean_utilisation"] < 0.46
        assert curve["points"][2]["links"][0]["utilisation"] > 0.97


def test_a_message_alone_goes_over_a_connection_in_use(tmp_path: Path) -> None:
    """64 KiB at 12.5 GB/s take 5.2 us on each of two links one behind the other, packets apart;
    windows of 1 or 10 packets make only the first one slower."""
    file, found = tmp_path / "p.yml", {}
    for window in (1, 10):
        file.write_text(
            "topology: Switch(4)\nlinks: {bandwidth: 100 Gb/s, latency: 2 us}\n"
            f"network: {{packet: {{tcp: {{initial_window: {window}}}}}}}\n"
        )
        arguments = ["-p", str(file), "--backend", "packet", "--size", "64K", "--loads", "10%,300%"]
        [found[window]] = curves([*arguments, "--messages-max", "4000"], tmp_path)
    assert found[1]["alone_ns"] == pytest.approx(found[10]["alone_ns"], rel=0.01)
    assert found[1]["first_ns"] > 1.5 * found[1]["alone_ns"]
    assert found[1]["first_ns"] > found[10]["first_ns"] > found[10]["alone_ns"]
    for curve in found.values():
        assert curve["points"][0]["latency"]["min_ns"] >= 0.99 * curve["alone_ns"]


def test_the_verdict_says_which_loads_saturate(
    ring: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["traffic", "-p", ring, "--backend", "link", "--pattern", "tornado"]
    for loads, said in (
        ("5%,10%", "none of these loads saturates the network"),
        ("5%,50%", "a load of 50% saturates the network"),
        ("50%,60%", "loads of 50%, 60% saturate the network"),
    ):
        assert main([*arguments, "--loads", loads, "--messages-max", "20000"]) == 0
        assert said in " ".join(capsys.readouterr().out.split())
