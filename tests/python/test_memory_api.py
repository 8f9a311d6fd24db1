"""Accesses to memory by another front end: `Network.access`."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable
from functools import partial

import pytest
from conftest import ROOT

import armillary as arm
from armillary.network import Network
from armillary.workload import Program, Workload

POOLS = [ROOT / f"examples/papers/pool{kind}.yml" for kind in ("", "-switches", "-ring", "-mesh")]


def test_the_local_access_of_the_paper() -> None:
    """Section IV-D of ASTRA-sim 2.0: latency + size / bandwidth, 1 us + 64 MB / 2 TB/s."""
    with Network(POOLS[0]) as net:
        times: list[int] = []
        for _ in range(2):
            net.access(3, "64 MB", "local", lambda: times.append(net.now))
        net.access(4, "64 MB", "local", lambda: times.append(net.now), store=True)
        net.run()
        assert times == [33_000_000, 33_000_000, 66_000_000]


def test_the_worked_example_of_the_paper() -> None:
    """256 GPUs load 64 MB each: 512 stages of 10 us, then 10 us, then 1 MB / 8 over 256 GB/s."""
    with Network(POOLS[0]) as net:
        done: list[int] = []
        for npu in range(net.npus):
            net.access(npu, "64 MB", "remote", lambda: done.append(net.now))
        net.run()
        assert (len(done), set(done)) == (256, {5_130_488_282})


@pytest.mark.parametrize("file", POOLS, ids=lambda file: file.stem)
def test_accesses_of_some_take_as_long_as_in_a_simulation(file: object) -> None:
    """NPUs that load and store at different times delay one another as they do in a run."""
    target = arm.Platform.load(str(file))
    drawn = random.Random(str(file))
    plan = {
        npu: (drawn.randrange(500_000_000), drawn.randrange(1, 40_000_000), drawn.random() < 0.3)
        for npu in drawn.sample(range(target.npus), 12)
    }
    programs, bound = [], [0] * target.npus
    idle = Program()
    idle.compute("nothing", [], duration_ps=1, host=True)
    for number, (npu, (delay, size, store)) in enumerate(plan.items(), 1):
        program = Program()
        first = program.compute("before", [], duration_ps=delay, host=True)
        program.memory("access", [first], size, store=store)
        programs.append(program)
        bound[npu] = number
    workload = Workload.listed("some", [idle, *programs], bound, {})
    with Network(target) as net:

        def begin(npu: int, size: int, store: bool) -> None:
            net.access(npu, size, store=store)

        for npu, (delay, size, store) in plan.items():
            net.schedule(delay, partial(begin, npu, size, store))
        assert net.run() == round(arm.simulate(workload, target).step_time_ns * 1000)


def test_memory_of_a_node_is_used_in_turn() -> None:
    """Two NPUs of a node share 25 GB/s; the third has the next node for itself. 1 us of latency."""
    shared = "{model: link, sharing: per_node, npus_per_node: 2, bandwidth: 25 GB/s, latency: 1 us}"
    links = "{bandwidth: 10 GB/s, latency: 1 us}"
    text = f"topology: Switch(4)\nlinks: {links}\nremote_memory: {shared}"
    with Network(arm.Platform.parse(text)) as net:
        times: list[tuple[int, int]] = []
        for npu in range(3):
            done = partial(lambda npu: times.append((npu, net.now)), npu)
            net.access(npu, 25_000, callback=done)
        net.run()
        assert times == [(0, 2_000_000), (2, 2_000_000), (1, 4_000_000)]


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda net: net.access(2, 1), "NPU 2 does not exist"),
        (lambda net: net.access(-1, 1), "invalid npu: -1"),
        (lambda net: net.access(0, -1), "invalid size: -1"),
        (lambda net: net.access(0, 1, "moon"), 'unknown location "moon".*local, remote'),
        (lambda net: net.access(0, 1, 5), 'unknown location "5"'),
        (lambda net: net.access(0, 1), 'memory that is "remote"'),
        (lambda net: net.access(0, 1, "disk"), 'memory that is "disk"'),
        (lambda net: net.access(0, 1, "local"), "accesses to the memory of an NPU.*2 TB/s"),
        (lambda net: net.access(0, 1, "local", 7), "invalid callback: 7"),
        (lambda net: (net.close(), net.access(0, 1)), "the network is closed"),
    ],
)
def test_what_cannot_be_is_refused(act: Callable[[Network], object], words: str) -> None:
    net = Network(arm.Platform("Switch(2)", bandwidth="10 GB/s", latency="500 ns"))
    with pytest.raises(arm.InputError, match=words):
        act(net)


def test_gathers_in_the_switches_take_what_a_simulation_says() -> None:
    program = Program()
    program.memory("gather", [], 1_000_000, reach="in_switch")
    target = arm.Platform.load(POOLS[0])
    workload = Workload.listed("gather", [program], [0] * target.npus, {})
    with Network(target) as net:
        for npu in range(net.npus):
            net.access(npu, "1 MB", "in_switch")
        assert net.run() == round(arm.simulate(workload, target).step_time_ns * 1000)


def test_a_memory_simulator_next_to_the_network(capsys: pytest.CaptureFixture[str]) -> None:
    """1 MiB at 100 GB/s takes 10.49 us in a bank and 0.05 us there; the second access to a bank
    waits for the first."""
    runpy.run_path(str(ROOT / "adapters/python/memory.py"))["main"]("dgx-h100")
    lines = capsys.readouterr().out.splitlines()
    times = {line.split(":")[0]: float(line.split()[-2]) for line in lines}
    alone = 2**20 / 1e5
    assert times["NPU 3 has loaded from bank 1"] == pytest.approx(alone + 0.05, abs=0.01)
    assert times["NPU 0 has loaded from bank 0"] == pytest.approx(alone + 0.05, abs=0.01)
    assert times["NPU 2 has loaded from bank 0"] == pytest.approx(2 * alone + 0.05, abs=0.01)
    assert times["NPU 1 has what NPU 0 loaded"] > alone + 0.05 + 2**20 / 450e3
