"""Queries to recommendation models: queues against theory, batches by hand, what is refused."""

from __future__ import annotations

import heapq
import itertools
import json
import math
import random
import re
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from conftest import Armillary
from thorough import usually

import armillary as arm
from armillary.errors import InputError
from armillary.model.files import Model
from armillary.serve.load import Lengths
from armillary.serve.queries import Load, Queue, answer, grows, promise, queued
from armillary.serve.recommender import HOSTS, Batches, batches

BANDWIDTH, PEAK = 1e12, 1e14
SETTINGS = {
    "npu.peak": "100 TFLOPS", "npu.memory.bandwidth": "1 TB/s", "npu.memory.capacity": "80 GB",
}  # fmt: skip
TABLES = [
    {"rows": 1000, "dim": 64, "pooling": 3, "count": 4},
    {"rows": 50, "dim": 64, "pooling": 1},
]
SMALL = Model(
    "small", "dlrm",
    {
        "dense_features": 13, "bottom": [256, 64], "interaction": {"kind": "dot"},
        "top": [128, 1], "tables": TABLES, "flow": "hoti",
    },
)  # fmt: skip
QUICK = Batches(1, (1, 64), (0.001, 0.004), ({"top": 0.001}, {"top": 0.004}), "", 0)


def poisson(draw: random.Random, rate: float, count: int) -> list[float]:
    at, times = 0.0, []
    for _ in range(count):
        at += draw.expovariate(rate)
        times.append(at)
    return times


# The queue


@pytest.mark.parametrize("draw", range(usually(6, 100)))
def test_lone_queries_are_an_m_d_1_queue(draw: int) -> None:
    """Without batches the mean wait is rho S / (2 (1 - rho)) (Pollaczek and Khinchine)."""
    random_ = random.Random(draw)
    service, load = random_.uniform(1e-4, 1e-2), random_.uniform(0.2, 0.75)
    count = 60_000
    found = queued(
        poisson(random_, load / service, count), [1] * count, 1, 0.0, lambda samples: service
    )
    expected = load * service / (2 * (1 - load))
    assert sum(found.waiting) / count == pytest.approx(expected, rel=0.12)
    assert {each.queries for each in found.batches} == {1}


@pytest.mark.parametrize("draw", range(usually(6, 100)))
def test_a_window_alone(draw: int) -> None:
    """Batches that take no time and never fill: the first query waits for the window W, and those
    that come within it, L W on average, wait for half of it."""
    random_ = random.Random(draw)
    rate, window = random_.uniform(10, 1000), random_.uniform(0.001, 0.1)
    count = 40_000
    found = queued(poisson(random_, rate, count), [1] * count, count, window, lambda samples: 0.0)
    others = rate * window
    assert count / len(found.batches) == pytest.approx(1 + others, rel=0.05)
    expected = window * (1 + others / 2) / (1 + others)
    assert sum(found.waiting) / count == pytest.approx(expected, rel=0.05)


def reference(
    arrivals: Sequence[float],
    samples: Sequence[int],
    most: int,
    window: float,
    seconds: Callable[[int], float],
) -> list[float]:
    """Latencies by another way: events in order of time, with a queue that is looked at after each
    of them."""
    events = [(at, 1, query) for query, at in enumerate(arrivals)]
    events += [(at + window, 2, query) for query, at in enumerate(arrivals)]
    heapq.heapify(events)
    waiting: deque[int] = deque()
    overdue, ended = set[int](), [math.nan] * len(arrivals)
    busy_until = 0.0

    def fits() -> tuple[int, bool]:
        """How many go together, and whether no other one may join."""
        total = 0
        for place, query in enumerate(waiting):
            if total + samples[query] > most:
                return place, True
            total += samples[query]
        return len(waiting), total == most

    while events:
        now, kind, query = heapq.heappop(events)
        if kind == 1:
            waiting.append(query)
        elif kind == 2:
            overdue.add(query)
        while events and events[0][:2] == (now, 1):
            waiting.append(heapq.heappop(events)[2])
        while waiting and now >= busy_until:
            many, full = fits()
            if not full and waiting[0] not in overdue:
                break
            batch = [waiting.popleft() for _ in range(many)]
            busy_until = now + seconds(sum(samples[each] for each in batch))
            for each in batch:
                ended[each] = busy_until
            heapq.heappush(events, (busy_until, 3, -1))
    return [end - at for end, at in zip(ended, arrivals, strict=True)]


@pytest.mark.parametrize("draw", range(usually(40, 2000)))
def test_the_queue_is_that_of_a_simulation_by_events(draw: int) -> None:
    random_ = random.Random(draw)
    count, most = random_.randint(1, 300), random_.randint(1, 40)
    arrivals = poisson(random_, random_.uniform(1, 400), count)
    samples = [random_.randint(1, most) for _ in range(count)]
    window = random_.choice([0.0, random_.uniform(0, 0.05)])
    fixed, each = random_.uniform(0, 0.02), random_.uniform(0, 0.002)

    def seconds(total: int) -> float:
        return fixed + each * total

    found = queued(arrivals, samples, most, window, seconds)
    assert found.latency == pytest.approx(
        reference(arrivals, samples, most, window, seconds), abs=1e-12
    )
    sane(found, arrivals, samples, most)


def sane(found: Queue, arrivals: Sequence[float], samples: Sequence[int], most: int) -> None:
    """Every query is answered once, no batch is too large, and none starts before its end."""
    assert sum(each.queries for each in found.batches) == len(arrivals)
    assert sum(each.samples for each in found.batches) == sum(samples)
    assert max(each.samples for each in found.batches) <= most
    assert min(found.waiting) >= -1e-12
    assert all(a.end <= b.start + 1e-12 for a, b in itertools.pairwise(found.batches))


def test_replicas_take_queries_in_turn() -> None:
    """Two replicas at twice the rate are two queues of every second query."""
    arrivals = poisson(random.Random(1), 300, 1000)
    samples = [1 + number % 7 for number in range(1000)]
    both = queued(arrivals, samples, 16, 0.002, QUICK.time, 2)
    for replica in (0, 1):
        one = queued(arrivals[replica::2], samples[replica::2], 16, 0.002, QUICK.time)
        assert both.latency[replica::2] == one.latency


def test_parts_add_up() -> None:
    load = Load(3000.0, 4000, Lengths(10.0, 0.2, 1.8))
    found = answer(load, QUICK, most=64, window=0.001)
    assert sum(found.parts.values()) == pytest.approx(found.latency.mean, rel=1e-9)
    assert found.within(found.latency.p99) >= 0.99
    assert 0 < found.busy <= 1


# The capacity, and the rate that keeps a limit


@pytest.mark.parametrize(
    ("samples", "together", "taken"),
    [
        (Lengths(1.0), 64, 64.0),
        (Lengths(9.0), 7, 63.0),
        (Lengths(33.0), 1, 33.0),
        (Lengths(52.0, 40 / 52, 64 / 52), 1, 52.0),
    ],
)
def test_the_capacity_is_that_of_the_queries_that_fit(
    samples: Lengths, together: int, taken: float
) -> None:
    """Queries of more than half of a batch go one at a time, whatever a full batch could hold."""
    found = answer(Load(100.0, 10, samples), QUICK, most=64, replicas=3)
    seconds = 0.001 + (taken - 1) / 63 * 0.003
    assert found.capacity == pytest.approx(3 * together / seconds, rel=0.003)


@pytest.mark.parametrize("draw", range(usually(4, 60)))
def test_more_queries_than_the_capacity_are_answered_at_the_capacity(draw: int) -> None:
    random_ = random.Random(draw)
    mean, spread_ = random_.uniform(2, 30), random_.uniform(0.1, 0.9)
    samples = Lengths(mean, 1 - spread_, 1 + spread_)
    replicas = random_.randint(1, 3)
    window = random_.choice([0.0, 0.01])
    calm = answer(Load(1.0, 10, samples), QUICK, most=64, replicas=replicas)
    rate = random_.uniform(1.5, 4) * calm.capacity
    found = answer(
        Load(rate, 30_000, samples, seed=draw), QUICK, most=64, window=window, replicas=replicas
    )
    assert 30_000 / found.span == pytest.approx(calm.capacity, rel=0.02)
    assert grows(found)


def waits_at_most(load: float, limit: float) -> float:
    """Part of the queries of an M/D/1 queue that wait at most `limit` times of service (Erlang)."""
    return (1 - load) * sum(
        (-load * (limit - k)) ** k / math.factorial(k) * math.exp(load * (limit - k))
        for k in range(int(limit) + 1)
    )


@pytest.mark.parametrize("draw", range(usually(3, 40)))
def test_the_highest_rate_is_that_of_an_m_d_1_queue(draw: int) -> None:
    random_ = random.Random(draw)
    patience, service = random_.uniform(0.05, 9), random_.uniform(1e-5, 1e-2)
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if waits_at_most(middle, patience) > 0.99 else (low, middle)
    one = Batches(1, (1,), (service,), ({"top": service},), "", 0)
    kept = promise(
        answer(Load(1.0, 3, Lengths(1.0), seed=draw), one, most=1), (1 + patience) * service
    )
    assert kept.rate * service == pytest.approx(low, rel=0.12 if patience < 1 else 0.05)
    assert not kept.open


def test_the_highest_rate_does_not_depend_on_the_queries_of_the_run() -> None:
    few, many = (
        promise(answer(Load(rate, count, Lengths(1.0)), QUICK, most=64, window=0.0005), 0.006)
        for rate, count in ((1.0, 3), (5000.0, 5000))
    )
    assert few.rate == many.rate < few.tried == pytest.approx(0.99 * 64 / 0.004)


@pytest.mark.parametrize("replicas", [1, 3])
def test_even_queries_keep_a_limit_up_to_the_capacity(replicas: int) -> None:
    """Each batch is full when the one before ends, and its first query waits while it fills."""
    load = Load(1.0, 3, Lengths(1.0), "even")
    found = answer(load, QUICK, most=64, window=9.0, replicas=replicas)
    highest = 0.99 * replicas * 64 / 0.004
    fills = replicas * 63 / highest
    kept = promise(found, 1.001 * (fills + 0.004))
    assert kept.open
    assert kept.rate == pytest.approx(highest)
    assert kept.within == 0  # a lone query waits for the window
    assert promise(found, 0.004).rate == 0


def test_a_limit_below_the_shortest_batch_is_kept_at_no_rate() -> None:
    found = answer(Load(1.0, 3, Lengths(1.0)), QUICK, most=64, window=0.002)
    assert promise(found, 0.0009).rate == 0


def test_batches_of_very_many_queries_are_tried_up_to_a_lower_rate() -> None:
    huge = Batches(1, (1, 100_000), (0.001, 0.01), ({}, {}), "", 0)
    kept = promise(answer(Load(1.0, 3, Lengths(1.0)), huge, most=100_000), 1.0)
    assert kept.open
    assert kept.rate == pytest.approx(10_000 / 0.01)


# Times of batches


def dense(rows: int, pairs: Sequence[tuple[int, int]]) -> float:
    """Seconds of fully connected layers in fp32: operations or bytes, whichever takes longer."""
    return sum(
        max(2 * rows * n * k / PEAK, 4 * (rows * k + n * k + rows * n) / BANDWIDTH)
        for k, n in pairs
    )


@pytest.mark.parametrize("samples", [1, 32, 1000])
def test_a_batch_on_one_npu_by_hand(samples: int) -> None:
    """Lookups read 13 rows of 64 elements and write 5 pooled ones."""
    one = arm.Platform("Switch(1)", bandwidth="100 GB/s", latency="1 us", settings=SETTINGS)
    found = batches(SMALL, one, samples)
    lookup = samples * (13 * 8 + 13 * 64 * 4 + 5 * 64 * 4) / BANDWIDTH
    dots = max(2 * samples * 6 * 6 * 64 / PEAK, 4 * samples * (2 * 6 * 64 + 36) / BANDWIDTH)
    expected = {
        "lookup": lookup,
        "bottom": dense(samples, [(13, 256), (256, 64)]),
        "interaction": dots,
        "top": dense(samples, [(64 + 15, 128), (128, 1)]),
    }
    assert {name: found.part(name, samples) for name in expected} == pytest.approx(
        expected, rel=0.02, abs=2e-10
    )
    assert found.time(samples) == pytest.approx(sum(expected.values()), rel=0.02, abs=2e-10)
    assert found.warnings == (HOSTS,)


def test_pooled_rows_are_exchanged() -> None:
    """On two NPUs each sends the other the pooled rows of half of the batch: the one with most
    tables decides."""
    two = arm.Platform(
        "Switch(2)",
        bandwidth="1 GB/s",
        latency="0 us",
        settings={**SETTINGS, "npu.peak": "1 PFLOPS"},
    )
    found = batches(SMALL, two, 2000, sharding="table")
    wide = 3 * 64 * 4 * 1000 / 1e9
    spent = found.part("exchange", 2000) + found.part("bottom", 2000)
    assert spent == pytest.approx(wide, rel=0.05)


def test_tables_on_the_host_cost_rows() -> None:
    """A cache that holds all tables fetches nothing in the long run; a smaller one does."""
    platform = arm.Platform.load("zionex", {"npus": 16})
    whole, part = (
        batches("dlrm-mlperf", platform, 16 * 512, tier="host", cache=size)
        for size in ("30 GB", "10 MB")
    )
    assert whole.part("rows", 4096) < 1e-7 < part.part("rows", 4096)
    near = batches("dlrm-mlperf", platform, 16 * 512)
    assert near.part("rows", 4096) == 0
    assert part.memory < near.memory


def test_tables_that_do_not_fit_are_refused() -> None:
    platform = arm.Platform.load("dgx-h100", {"npu.memory.capacity": "2 GB"})
    with pytest.raises(InputError, match="holds 18192484096 bytes of tables"):
        batches("dlrm-mlperf", platform, 1024)


@pytest.mark.parametrize("sharding", ["auto", "column"])
def test_want_of_memory_is_that_of_tables_alone(sharding: str) -> None:
    """No optimizer is there when queries are answered, and the platform says how much there is."""
    platform = arm.Platform.load("dgx-h100", {"npu.memory.capacity": "2 GB"})
    with pytest.raises(InputError) as raised:
        batches("dlrm-mlperf", platform, 1024, sharding=sharding)
    (problem,) = raised.value.problems
    assert problem.place == "npu.memory.capacity"
    assert re.fullmatch(r"NPU \d holds \d+ bytes of tables, more than 2000000000", problem.message)
    assert "adagrad" not in problem.help


# The command


def test_the_command_says_what_users_experience(armillary: Armillary, tmp_path: Path) -> None:
    command = (
        "serve", "dlrm-mlperf", "-p", "dgx-h100", "--rate", "20000", "--query-samples", "100-700",
        "--batch-samples", "4096", "--batch-window", "0.2ms", "--slo", "latency=2ms",
        "--num-requests", "2000",
    )  # fmt: skip
    shown = armillary(*command)
    assert shown.returncode == 0
    for text in ("Latency: ", "Capacity: ", "exchange of pooled rows", "Within the limit"):
        assert text in shown.stdout
    page, rows = tmp_path / "page.html", tmp_path / "rows.csv"
    made = armillary(*command, "--json", "-", "--csv", str(rows), "--report", str(page))
    document = json.loads(made.stdout)
    assert document["schema"] == "armillary.serve-queries/1"
    assert document["model"] == "dlrm-mlperf"
    assert HOSTS in document["warnings"]
    whole = document["latency_ms"]["mean"]
    assert sum(document["parts_ms"].values()) == pytest.approx(whole, rel=1e-6)
    assert 0.99 <= document["within"] <= 1
    assert document["highest_rate_per_s"] == document["highest_rate_tried_per_s"]
    assert document["highest_rate_tried_per_s"] == pytest.approx(0.99 * document["capacity_per_s"])
    assert len(rows.read_text().splitlines()) == 2001
    assert "exchange of pooled rows" in page.read_text()
    again = armillary(*command, "--json", "-")
    assert again.stdout == made.stdout


def test_the_document_says_what_was_asked(armillary: Armillary) -> None:
    """Dollars of a million queries: those of 8 NPUs for as long as they take."""
    command = (
        "serve", "dlrm-mlperf", "-p", "dgx-h100", "--rate", "500", "--query-samples", "100-700",
        "--num-requests", "1", "--seed", "7", "--arrival", "even", "--price", "3",
    )  # fmt: skip
    run = armillary(*command, "--json", "-")
    document = json.loads(run.stdout)
    asked = {"platform": "dgx-h100", "arrival": "even", "seed": 7, "queries": 1, "rate": 500}
    assert asked.items() <= document.items()
    assert document["samples"] == pytest.approx({"mean": 400, "least": 100, "most": 700})
    dollars = 8 * 3 / 3600 * document["latency_ms"]["mean"] / 1000 * 1e6
    assert document["dollars_per_million_queries"] == pytest.approx(dollars)
    shown = armillary(*command).stdout
    assert f"Cost: ${dollars:.4g} " in shown
    assert " 1 query, 500 a second" in shown


def test_a_rate_above_that_of_the_run_may_be_the_only_one_within_the_limit(
    armillary: Armillary,
) -> None:
    """A lone query waits 2 ms for others; many fill a batch sooner."""
    command = ("serve", "dlrm-mlperf", "-p", "dgx-h100", "--rate", "9", "--query-samples", "100")
    limit = ("--batch-window", "2ms", "--slo", "latency=1ms", "--num-requests", "30")
    shown = " ".join(armillary(*command, *limit).stdout.split())
    assert "Within the limit: 0.0%" in shown
    assert "fewer do at lower rates, where batches wait for their window" in shown


def test_rows_that_are_looked_up_equally_are_fetched_more_often(armillary: Armillary) -> None:
    command = (
        "serve", "dlrm-mlperf", "-p", "dgx-h100", "--rate", "500", "--num-requests", "3", "--tier",
        "host", "--cache", "100MB", "--set", "remote_memory.bandwidth=50GB/s", "--json", "-",
    )  # fmt: skip
    even, default, most = (
        json.loads(armillary(*command, *words).stdout)["batch_times_ms"][-1]["rows"]
        for words in (("--skew", "0"), (), ("--skew", "1.5"))
    )
    assert even > default > most


@pytest.mark.parametrize(("rate", "more"), [(16_000, True), (12_000, False)])
def test_more_queries_than_are_answered_are_a_warning(
    armillary: Armillary, rate: int, more: bool
) -> None:
    """Two queries of 4,000 samples do not fit into a batch of 6,912."""
    command = ("serve", "dlrm-mlperf", "-p", "dgx-h100", "--query-samples", "4000", "--rate")
    run = armillary(*command, str(rate), "--json", "-")
    document = json.loads(run.stdout)
    times = {each["samples"]: each["whole"] for each in document["batch_times_ms"]}
    alone = times[2048] + (4000 - 2048) / 2048 * (times[4096] - times[2048])
    assert document["capacity_per_s"] == pytest.approx(1000 / alone)
    said = f"16,000 queries a second are more than the {1000 / alone:,.0f} that can be answered"
    assert (said in run.stderr) is more
    assert any("queue" in each for each in document["warnings"]) is more


@pytest.mark.parametrize(
    ("model", "words", "said"),
    [
        ("dlrm-mlperf", (), "queries come at a rate"),
        ("dlrm-mlperf", ("--rate", "-1"), "invalid rate"),
        ("dlrm-mlperf", ("--rate", "nan"), "invalid rate"),
        ("dlrm-mlperf", ("--rate", "9", "--tp", "2"), "--tp"),
        ("dlrm-mlperf", ("--rate", "9", "--requests", "x.csv"), "--requests"),
        ("dlrm-mlperf", ("--rate", "9", "--replicas", "3"), "3 replicas on 8 NPUs"),
        ("dlrm-mlperf", ("--rate", "9", "--query-samples", "many"), "invalid lengths"),
        ("dlrm-mlperf", ("--rate", "9", "--query-samples", "9", "--batch-samples", "8"), "larger"),
        ("dlrm-mlperf", ("--rate", "9", "--batch-window", "2"), "invalid time"),
        ("dlrm-mlperf", ("--rate", "9", "--batch-window", "2GB"), "invalid time"),
        ("dlrm-mlperf", ("--rate", "9", "--slo", "ttft=1s"), "latency=10ms"),
        ("dlrm-mlperf", ("--rate", "9", "--tier", "host"), "in: --cache\n"),
        ("dlrm-mlperf", ("--rate", "9", "--tier", "attic"), "in: --tier\n"),
        ("dlrm-mlperf", ("--rate", "9", "--sharding", "fair"), "in: --sharding\n"),
        ("dlrm-mlperf", ("--rate", "9", "--arrival", "rare"), "in: --arrival\n"),
        ("dlrm-mlperf", ("--rate", "9", "--table-precision", "fp1"), "in: --table-precision\n"),
        ("dlrm-mlperf", ("--rate", "9", "--query-samples", "9000"), "in: --batch-samples\n"),
        ("dlrm-mlperf", ("--rate", "9", "--replicas", "3"), "in: --replicas\n"),
        ("dlrm-mlperf", ("--rate", "9", "--network", "foo"), "in: --network\n"),
        ("dlrm-mlperf", ("--rate", "9", "--backend", "foo"), "in: --backend\n"),
        ("dlrm-mlperf", ("--rate", "9", "--price", "nan"), "in: --price\n"),
        ("dlrm-mlperf", ("--rate", "9", "--cache", "1GB"), "with --tier host"),
        ("dlrm-mlperf", ("--rate", "9", "--cache", "0", "--tier", "device"), "with --tier host"),
        ("dlrm-mlperf", ("--rate", "9", "--skew", "0"), "with --tier host"),
        ("dlrm-mlperf", ("--rate", "9", "--no-what-if"), "in: --no-what-if\n"),
        ("llama-3-8b", ("--rate", "9", "--network", "foo", "--tp", "2"), "in: --network\n"),
        ("llama-3-8b", ("--rate", "9", "--skew", "1"), "is a decoder"),
        ("resnet-50", ("--rate", "9"), "takes no requests"),
    ],
)
def test_bad_input_is_named(
    armillary: Armillary, model: str, words: tuple[str, ...], said: str
) -> None:
    run = armillary("serve", model, "-p", "dgx-h100", *words)
    assert run.returncode == 2
    assert said in run.stderr
    assert "internal error" not in run.stderr
