"""Networks under another front end: `armillary.Network`."""

from __future__ import annotations

import random
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable
from functools import partial

import pytest
from conftest import ROOT

import armillary as arm
from armillary.network import Network

QUEUES = (
    f"external:{shlex.quote(sys.executable)} {shlex.quote(str(ROOT / 'adapters/python/queues.py'))}"
)
BACKENDS = ["analytical", "link", "flow", "packet", "flit", QUEUES]


def platform(topology: str = "Ring(4)", **settings: object) -> arm.Platform:
    plain = {"scheduler.chunks": 1, "collectives.all_reduce": "ring", **settings}
    return arm.Platform(topology, bandwidth="10 GB/s", latency="500 ns", settings=plain)


DELAY = "10 ns"
"""`scheduler.endpoint_delay`: before the first send, and after each reception."""


def ring_all_reduce(net: Network, size: int) -> int:
    """The time of a ring all-reduce, ps: each NPU sends a part on when it has received one."""
    npus = net.npus
    part = size // npus

    def step(npu: int, number: int) -> None:
        if number == 2 * (npus - 1):
            return
        later = partial(net.schedule, DELAY, partial(step, npu, number + 1))
        net.send(npu, (npu + 1) % npus, part, tag=number)
        net.receive((npu - 1) % npus, npu, part, number, later)

    for npu in range(npus):
        net.schedule(DELAY, partial(step, npu, 0))
    return net.run()


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda name: name.split()[0][:10])
@pytest.mark.parametrize("topology", ["Switch(8)", "Ring(5)"])
def test_a_ring_all_reduce_takes_as_long_as_the_executor(topology: str, backend: str) -> None:
    target = platform(topology)
    npus = target.npus
    drawn = random.Random(f"{topology} {backend}")
    for size in (npus * drawn.randrange(1, 2000) for _ in range(3)):
        ours = arm.collective("all_reduce", size, target, backend=backend)["time_us"][0]
        with Network(target, backend=backend) as net:
            assert ring_all_reduce(net, size) == round(ours * 1e6)


def test_a_message_takes_its_hops_and_its_bytes() -> None:
    """Two links of 500 ns, and 1 MB at 10 GB/s."""
    with Network(platform("Switch(2)")) as net:
        times: list[int] = []
        net.send(0, 1, "1 MB", callback=lambda: times.append(net.now))
        assert (net.now, net.run(), times) == (0, 101_000_000, [101_000_000])


def test_a_receive_is_done_when_it_was_posted_and_its_message_has_arrived() -> None:
    with Network(platform("Switch(2)")) as net:
        done: list[tuple[str, int]] = []

        def note(what: str) -> Callable[[], None]:
            return lambda: done.append((what, net.now))

        net.receive(0, 1, 10_000, 1, note("early"))
        net.send(0, 1, 10_000, 1, note("sent"))
        net.send(0, 1, 10_000, 2)
        net.schedule("9 us", lambda: net.receive(0, 1, 10_000, 2, note("late")))
        net.run()
        assert done == [("sent", 2_000_000), ("early", 2_000_000), ("late", 9_000_000)]


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda name: name.split()[0][:10])
def test_messages_of_one_tag_match_in_the_order_of_the_calls(backend: str) -> None:
    """A large message before a small one: each receive gets the one of its turn."""
    done: list[tuple[int, int]] = []
    with Network(platform("Switch(2)"), backend=backend) as net:
        for size in (100_000, 10):
            net.send(0, 1, size, 7)
        for size in (100_000, 10):
            net.receive(0, 1, size, 7, partial(lambda size: done.append((size, net.now)), size))
        net.run()
    assert {size for size, _ in done} == {100_000, 10}
    assert dict(done)[100_000] >= 11_000_000


def test_at_one_instant_messages_come_before_what_is_scheduled() -> None:
    done: list[str] = []
    with Network(platform("Switch(2)")) as net:
        net.schedule("2 us", lambda: done.append("first scheduled"))

        def second() -> None:
            done.append("second")
            net.schedule(0, lambda: done.append("last"))

        net.schedule("2 us", second)
        net.send(0, 1, 10_000, callback=lambda: done.append("arrived"))
        net.run()
        assert (done, net.now) == (["arrived", "first scheduled", "second", "last"], 2_000_000)


@pytest.mark.parametrize("backend", BACKENDS, ids=lambda name: name.split()[0][:10])
def test_the_same_calls_give_the_same_course(backend: str) -> None:
    def course() -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        drawn = random.Random(1)
        with Network(platform("Switch(3)_Ring(3)"), backend=backend) as net:

            def send(left: int) -> None:
                src, dst = drawn.sample(range(9), 2)

                def arrived() -> None:
                    seen.append((left, net.now))
                    if left:
                        send(left - 1)

                net.send(src, dst, drawn.randrange(5000), callback=arrived)

            for _ in range(5):
                send(8)
            net.run()
        return seen

    first = course()
    assert len(first) == 45
    assert first == course()


def test_advance_stops_at_its_time_and_goes_on_from_there() -> None:
    with Network(platform("Switch(2)")) as net:
        done: list[int] = []
        net.send(0, 1, 10_000, callback=lambda: done.append(net.now))
        assert (net.advance("1.5 us"), done, net.now) == (1_500_000, [], 1_500_000)
        net.send(1, 0, 0, callback=lambda: done.append(net.now))
        assert (net.advance(2_000_000), done) == (2_000_000, [2_000_000])
        assert (net.run(), done) == (2_500_000, [2_000_000, 2_500_000])
        assert net.run() == 2_500_000


def test_what_a_callback_raises_leaves_run_and_the_rest_goes_on() -> None:
    done: list[str] = []
    with Network(platform()) as net:
        net.schedule(5, lambda: done.append("before"))
        net.schedule(5, lambda: 1 // 0)
        net.schedule(5, lambda: done.append("after"))
        with pytest.raises(ZeroDivisionError):
            net.run()
        assert (done, net.now) == (["before"], 5)
        assert (net.run(), done) == (5, ["before", "after"])


def test_a_callback_may_close_the_network() -> None:
    done: list[str] = []
    net = Network(platform())
    net.schedule(5, net.close)
    net.schedule(5, lambda: done.append("dropped"))
    net.run()
    assert done == []


def refused(act: Callable[[Network], object], words: str) -> None:
    net = Network(platform())
    net.advance(1000)
    with pytest.raises(arm.InputError, match=words) as raised:
        act(net)
    assert raised.value.problems[0].help


@pytest.mark.parametrize(
    ("act", "words"),
    [
        (lambda net: net.send(0, 4, 1), "NPU 4 does not exist.*0 to 3"),
        (lambda net: net.receive(99, 0, 1), "NPU 99 does not exist"),
        (lambda net: net.send(-1, 0, 1), "invalid src: -1"),
        (lambda net: net.send(True, 0, 1), "invalid src: True"),
        (lambda net: net.send(0, 2**32, 1), "invalid dst"),
        (lambda net: net.send(2, 2, 1), "sends to itself"),
        (lambda net: net.send(0, 1, -1), "invalid size: -1"),
        (lambda net: net.send(0, 1, 1.5), "invalid size: 1.5"),
        (lambda net: net.send(0, 1, "0.5 B"), "invalid size: '0.5 B'"),
        (lambda net: net.send(0, 1, "5 us"), "invalid size: '5 us'"),
        (lambda net: net.send(0, 1, 2**64), "invalid size"),
        (lambda net: net.send(0, 1, 1, "x"), "invalid tag: 'x'"),
        (lambda net: net.send(0, 1, 1, 0, 5), "invalid callback: 5"),
        (lambda net: net.schedule(-1, print), "invalid delay: -1"),
        (lambda net: net.schedule("1 GB/s", print), "invalid delay"),
        (lambda net: net.schedule("0.1 ps", print), "invalid delay"),
        (lambda net: net.schedule(5, None), "invalid callback: None"),
        (lambda net: net.schedule(2**64 - 1, print), "213 simulated days"),
        (lambda net: net.advance(999), "999 ps is in the past"),
        (lambda net: (net.schedule(1, net.run), net.run()), "a callback of the network runs it"),
        (lambda net: (net.close(), net.send(0, 1, 1)), "the network is closed"),
        (lambda net: (net.close(), net.run()), "the network is closed"),
        (lambda net: (net.close(), net.now), "the network is closed"),
        (lambda net: (net.receive(0, 1, 5), net.send(0, 1, 6)), "6 bytes .* a receive of 5 bytes"),
        (lambda net: (net.send(0, 1, 5), net.receive(0, 1, 6)), "5 bytes .* a receive of 6 bytes"),
        (lambda net: Network(platform(), backend="fast"), 'unknown backend "fast"'),
    ],
)
def test_what_cannot_be_is_refused(act: Callable[[Network], object], words: str) -> None:
    refused(act, words)


def test_a_refused_call_changes_nothing() -> None:
    with Network(platform("Switch(2)")) as net:
        done: list[int] = []
        net.receive(0, 1, 10_000, callback=lambda: done.append(net.now))
        with pytest.raises(arm.InputError):
            net.send(0, 1, 5)
        with pytest.raises(arm.InputError):
            net.send(0, 1, 10_000, 0, "no function")  # type: ignore[arg-type]
        net.send(0, 1, 10_000)
        assert (net.run(), done) == (2_000_000, [2_000_000])


def test_a_receive_that_nobody_sends_to_is_reported() -> None:
    with Network(platform()) as net:
        for tag in range(10):
            net.receive(3, 1, 64, tag)
        with pytest.raises(arm.StalledError) as raised:
            net.run()
        said = [problem.message for problem in raised.value.problems]
        assert (
            said[0] == "NPU 1 waits for 64 bytes from NPU 3 with tag 0, and there is no such send"
        )
        assert (len(said), said[-1]) == (9, "and 2 more wait")


def test_a_simulator_that_fails_is_an_error() -> None:
    with Network(platform(), backend="external:sh -c 'exit 7'") as net:
        net.send(0, 1, 5)
        with pytest.raises(arm.InputError, match="ended with exit code 7"):
            net.run()


@pytest.mark.parametrize("backend", ["packet", "external:sleep 20"])
def test_ctrl_c_stops_a_run(backend: str) -> None:
    script = (
        "import os, signal\n"
        "import armillary as arm\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's job ignores it\n"
        "p = arm.Platform('Switch(2)', bandwidth='10 GB/s', latency='500 ns')\n"
        f"net = arm.Network(p, backend={backend!r})\n"
        "net.schedule(0, lambda: print('runs', flush=True))\n"
        "net.schedule(0, lambda: net.send(0, 1, '900 TB'))\n"
        "try:\n    net.run()\nexcept KeyboardInterrupt:\n    print('stopped', flush=True)\n"
        "os._exit(0)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, bufsize=1
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "runs\n"
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "stopped\n"
