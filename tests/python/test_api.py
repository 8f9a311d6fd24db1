"""The package as a program uses it."""

from __future__ import annotations

import importlib
import inspect
import json
import os
from collections.abc import Callable
from pathlib import Path

import et
import polars as pl
import pytest
import toy
from command_copies import Copies

import armillary as arm


@pytest.fixture
def platform() -> arm.Platform:
    return arm.Platform("R(4)_SW(2)", bandwidth=["100 GB/s", "25 GB/s"], latency=["500 ns", "2 us"])


@pytest.fixture
def result(platform: arm.Platform, tmp_path: Path) -> arm.Result:
    return arm.simulate(arm.load(toy.traces(tmp_path)), platform)


def test_platform_from_notation_equals_the_file(platform: arm.Platform, tmp_path: Path) -> None:
    ours, theirs = platform.describe(), arm.Platform.load(toy.platform(tmp_path)).describe()
    assert {**ours, "name": ""} == {**theirs, "name": ""}
    assert repr(platform) == "<Platform R(4)_SW(2): 8 NPUs>"


def test_settings(tmp_path: Path) -> None:
    chosen = arm.Platform.load(
        toy.platform(tmp_path), settings={"scheduler.chunks": 3, "name": "mine"}
    )
    assert chosen.name == "mine"
    assert chosen.describe()["scheduler"]["chunks"] == 3


@pytest.mark.parametrize("bandwidth", [100, [100, 25], ["100"], ["-1 GB/s"], ["1 GB/s"] * 3])
def test_platform_refuses(bandwidth: object) -> None:
    with pytest.raises(arm.InputError) as caught:
        arm.Platform("R(4)_SW(2)", bandwidth=bandwidth, latency="1 us")  # type: ignore[arg-type]
    assert all(problem.help for problem in caught.value.problems)


def test_workload(tmp_path: Path) -> None:
    workload = arm.load(toy.traces(tmp_path))
    assert (workload.ranks, workload.operations) == (8, 32)


@pytest.mark.parametrize(("size", "root"), [(-5, 0), (10**30, 0), (8, -1), (8, 8)])
def test_collective_refuses(platform: arm.Platform, size: int, root: int) -> None:
    with pytest.raises(arm.InputError):
        arm.collective("broadcast", size, platform, root=root)


def test_an_old_seed_has_no_effect(platform: arm.Platform, tmp_path: Path) -> None:
    workload = arm.load(toy.traces(tmp_path))
    with pytest.warns(DeprecationWarning, match="seed has no effect"):
        found = arm.simulate(workload, platform, seed=7)
    assert found.report == arm.simulate(workload, platform).report


def test_groups_from_a_file(platform: arm.Platform, tmp_path: Path) -> None:
    """Traces that name a group need a file that says who is in it."""
    node = et.collective(0, 1 << 20)
    node.attributes["pg_name"] = "7"
    pattern = et.write(
        tmp_path / "named", [[node], [node], *([et.compute(0, 1)] for _ in range(6))]
    )
    with pytest.raises(arm.InputError, match="7"):
        arm.load(pattern, platform)
    (tmp_path / "groups.json").write_text('{"7": [0, 1]}')
    workload = arm.load(pattern, platform, groups=tmp_path / "groups.json")
    assert arm.simulate(workload, platform).dimensions()["bytes"].to_list()[0] > 0
    (tmp_path / "groups.json").write_text('{"7": [0, 8]}')
    with pytest.raises(arm.InputError, match=r"groups\.json"):
        arm.load(pattern, platform, groups=tmp_path / "groups.json")


def test_breakdown(result: arm.Result) -> None:
    frame = result.breakdown()
    assert frame["count"].sum() == 8
    shares = frame.select(
        pl.sum_horizontal(
            "compute_share",
            "exposed_comm_share",
            "exposed_remote_share",
            "exposed_local_share",
            "exposed_launch_share",
            "exposed_host_share",
            "idle_share",
        )
    )
    assert shares.to_series().to_list() == pytest.approx([1.0] * len(frame))


def test_tables(result: arm.Result) -> None:
    assert set(result.operations()["name"]) == {"forward", "backward", "gradients", "parameters"}
    assert result.dimensions()["name"].to_list() == ["Ring(4)", "Switch(2)"]
    assert len(result.phases()) > 0
    assert result.links().columns == list(arm.schema.Link.__annotations__), (
        "an empty table keeps its columns"
    )


def test_ranks(result: arm.Result) -> None:
    frame = result.ranks()
    assert frame["rank"].to_list() == list(range(8))
    assert frame["finish_ns"].max() == result.step_time_ns
    computed = frame["finish_ns"] - frame["finish_minus_compute_ns"]
    assert computed.to_list() == [150_000.0, 160_000.0] * 4


def test_json(result: arm.Result, tmp_path: Path) -> None:
    text = result.to_json(tmp_path / "r.json")
    assert (tmp_path / "r.json").read_text() == text
    assert json.loads(text) == result.report


def test_same_bytes(platform: arm.Platform, tmp_path: Path) -> None:
    workload = arm.load(toy.traces(tmp_path))
    for backend in ("analytical", "link"):
        texts = {
            arm.simulate(workload, platform, backend=backend, fold=fold).to_json()
            for fold in (True, False, True)
        }
        assert len(texts) == 1


def test_errors_carry_problems(platform: arm.Platform, tmp_path: Path) -> None:
    with pytest.raises(arm.InputError) as caught:
        arm.load(tmp_path / "nothing")
    assert caught.value.problems[0].file == str(tmp_path / "nothing")
    with pytest.raises(arm.InputError):
        arm.simulate(
            arm.load(toy.traces(tmp_path)), arm.Platform("R(4)", bandwidth="1 GB/s", latency="1 us")
        )
    with pytest.raises(arm.InputError):
        arm.simulate(arm.load(toy.traces(tmp_path)), platform, backend="magic")


def test_missing_send(platform: arm.Platform, tmp_path: Path) -> None:
    path = toy.stalled(tmp_path)
    with pytest.raises(arm.InputError) as caught:
        arm.simulate(arm.load(path), platform)
    assert [(problem.file, problem.place) for problem in caught.value.problems] == [
        (path, "rank 0 node 0")
    ]


def test_standstill(platform: arm.Platform, tmp_path: Path) -> None:
    """Ranks 0 and 1 both receive before they send: only the run can tell, and it names the
    traces."""
    head_to_head = [
        [et.receive(0, peer, rank, 64), et.send(1, rank, peer, 64, [0])]
        for rank, peer in ((0, 1), (1, 0))
    ]
    path = et.write(tmp_path / "circle", [*head_to_head, *([et.compute(0, 1)] for _ in range(6))])
    with pytest.raises(arm.StalledError) as caught:
        arm.simulate(arm.load(path), platform)
    waiting = [(problem.file, problem.place) for problem in caught.value.problems if problem.place]
    assert waiting == [(path, "rank 0 node 0"), (path, "rank 1 node 0")]


def test_report_names_the_traces(platform: arm.Platform, tmp_path: Path) -> None:
    path = toy.traces(tmp_path)
    report = arm.simulate(arm.load(path), platform).report
    assert report["config"]["workload"]["traces"] == path


def test_collective(platform: arm.Platform) -> None:
    frame = arm.collective("all_reduce", [2**20, 2**24], platform)
    assert frame["size"].to_list() == [2**20, 2**24]
    assert frame["time_us"].is_sorted()
    assert arm.collective("all_reduce", 2**20, platform).rows() == frame.head(1).rows()
    assert arm.collective("all_reduce", [], platform).columns == frame.columns


def test_other_threads_run_meanwhile_and_ctrl_c_stops(commands: Copies, tmp_path: Path) -> None:
    """In a process of its own: a Ctrl-C that comes late would end the tests. The run would take
    many seconds."""
    script = """
import signal, threading, time, warnings
import armillary as arm

warnings.simplefilter("ignore")
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job ignores it
main, ticks = threading.get_ident(), 0

def tick():
    global ticks
    for _ in range(20):
        time.sleep(0.05)
        ticks += 1
    signal.pthread_kill(main, signal.SIGINT)

platform = arm.Platform(
    "R(16)_R(16)",
    bandwidth="50 GB/s",
    latency="500 ns",
    settings={"scheduler.chunks": 4096},
)
thread = threading.Thread(target=tick)
try:
    thread.start()
    arm.collective("all_reduce", 2**30, platform, backend="link", fold=False)
except KeyboardInterrupt:
    print("stopped after", ticks, "ticks")
"""
    run = commands.run(["-c", script], tmp_path, os.environ)
    assert (run.stdout, run.stderr) == ("stopped after 20 ticks\n", "")


def test_an_exception_in_the_callback_stops_the_run() -> None:
    from armillary.api import collective_row

    settings = {"scheduler.chunks": 4096}
    long_run = arm.Platform("R(16)_R(16)", bandwidth="50 GB/s", latency="1 us", settings=settings)

    def callback(done: float, simulated_ns: float) -> None:
        assert 0 <= done <= 1
        assert simulated_ns >= 0
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        collective_row("all_reduce", 2**30, long_run, backend="link", fold=False, progress=callback)


def _with_a_platform() -> list[str]:
    """Public functions with a parameter `platform`, found by their signatures."""
    api = importlib.import_module("armillary.api")
    homes = [arm, api, arm.workload, importlib.import_module("armillary.plan.roofline")]
    return sorted(
        name
        for home in homes
        for name, each in [*vars(home).items(), *((n, getattr(home, n)) for n in _public(home))]
        if inspect.isfunction(each)
        and not name.startswith("_")
        and "platform" in inspect.signature(each).parameters
    )


def _public(home: object) -> list[str]:
    return list(getattr(home, "__all__", ()))


def test_every_function_takes_a_platform_by_name(tmp_path: Path) -> None:
    name, path = "dgx-h100", tmp_path / "platform.yml"
    path.write_text(arm.Platform.load(name).to_yaml())
    tiny = arm.load("llama-3-8b", tp=8)
    written = tmp_path / "workload"
    tiny.write(written)
    roofline = importlib.import_module("armillary.plan.roofline").roofline
    api = importlib.import_module("armillary.api")
    calls: dict[str, Callable[[str | Path | arm.Platform], object]] = {
        "check": lambda on: api.check(tiny, on),
        "check_backend": lambda on: api.check_backend(on, "link"),
        "collective": lambda on: arm.collective("all_reduce", 2**20, on),
        "collective_interval": lambda on: api.collective_interval("all_reduce", 2**20, on),
        "collective_result": lambda on: api.collective_result("all_reduce", 2**20, on).step_time_ns,
        "collective_row": lambda on: api.collective_row("all_reduce", 2**20, on).time_us,
        "collective_us": lambda on: api.collective_us("all_reduce", 2**20, on),
        "findings": lambda on: api.findings(tiny, on),
        "ladder": lambda on: arm.ladder(tiny, on, ["analytical"]).data["networks"],
        "load": lambda on: arm.load(written, on).ranks,
        "plan": lambda on: arm.plan("dlrm-small", on, 8),
        "roofline": lambda on: roofline("dlrm-small", on, dp=8),
        "simulate": lambda on: arm.simulate(tiny, on).step_time_ns,
        "traffic": lambda on: arm.traffic(on, networks=["link"], loads=[0.1], messages_max=200),
    }
    assert set(_with_a_platform()) == set(calls)
    for called, call in calls.items():
        for on in (name, path, arm.Platform.load(name)):
            assert call(on) is not None, (called, on)
        with pytest.raises(arm.InputError):
            call("no-such-platform")


def test_npus_resizes_a_platform() -> None:
    sixteen = arm.Platform.load("dgx-h100-16n", npus=64)
    expected = arm.collective("all_reduce", 2**20, sixteen)
    for on in ("dgx-h100-16n", arm.Platform.load("dgx-h100-16n")):
        assert arm.Platform.of(on, npus=64).npus == 64
        assert arm.collective("all_reduce", 2**20, on, npus=64).equals(expected)
    tiny = arm.load("llama-3-8b", tp=8, dp=2)
    assert arm.simulate(tiny, "dgx-h100-16n", npus=16).report["ranks"] == 16
    with pytest.raises(arm.InputError):
        arm.simulate("llama-3-8b", "dgx-h100-16n", tp=8, dp=2, npus=64)


def test_a_run_without_detail_is_explained(platform: arm.Platform, tmp_path: Path) -> None:
    workload = arm.load(toy.traces(tmp_path))
    plain, logged = (arm.simulate(workload, platform, detail=each) for each in (False, True))
    assert str(plain.explain(what_if=False)) == str(logged.explain(what_if=False))
