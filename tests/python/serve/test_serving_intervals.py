"""Intervals of what a deployment delivers: by hand, against runs of slower engines, and narrowed by
a measured run."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Armillary

from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.serve import (
    Choices,
    Engines,
    Layout,
    Lengths,
    Load,
    Precision,
    deploy,
    drawn,
    load_engine,
)
from armillary.serve.fleet import Fleet
from armillary.serve.intervals import factors, uncertain
from armillary.serve.limits import Limits
from armillary.uncertainty import LEVEL, Interval, serving, tables


def engines(load: Load, platform: str = "dgx-h100", choices: Choices | None = None) -> Engines:
    return deploy(
        decoder(load_model("llama-3-8b")),
        Platform.load(platform),
        load_engine("vllm"),
        Layout(),
        Precision(),
        longest=load.longest,
        choices=choices,
    )


def test_all_times_of_a_stretched_fleet_are_stretched() -> None:
    """Also those of its host and of the way from prompts to tokens: a load whose arrivals are
    stretched alike takes the same factor longer."""
    draw = random.Random(7)
    for apart in (False, True):
        load = drawn(60, Lengths(700, 0.5, 1.5), Lengths(40, 0.5, 1.5), rate=draw.uniform(20, 60))
        kind = engines(load)
        way = ((1.0, 0.001), (4096.0, 0.05)) if apart else ()
        fleet = Fleet(kind, kind if apart else None, way)
        factor = draw.uniform(1.1, 1.9)
        assert load.arrivals is not None
        times = tuple(round(factor * at) for at in load.arrivals)
        slow = fleet.stretched(factor).serve(replace(load, arrivals=times))
        for one, other in zip(fleet.serve(load).answers, slow.answers, strict=True):
            assert other.latency == pytest.approx(factor * one.latency, rel=1e-6)
            assert other.ttft == pytest.approx(factor * one.ttft, rel=1e-6)


def test_ends_in_a_closed_loop_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Factors on each quantity, and a goodput of requests whose times are multiplied."""
    known = {"ttft": (0.5, 3.0), "tpot": (0.8, 1.5), "rate": (0.9, 1.25)}

    def interval(name: str, wanted: dict[str, str]) -> Interval:
        return Interval(*known[name], LEVEL, 3.0, wanted, ())

    monkeypatch.setattr(serving, "interval", interval)
    load = drawn(80, Lengths(900, 0.1, 1.9), Lengths(60, 0.5, 1.5), concurrency=20)
    found = Fleet(engines(load)).serve(load)
    limits = Limits(found.ttft.p50, found.tpot.p90)
    within = uncertain(found, limits)
    assert within is not None and within.goodput is not None
    assert within.ttft["p99"] == pytest.approx((0.5 * found.ttft.p99, 3 * found.ttft.p99))
    assert within.tpot["mean"] == pytest.approx((0.8 * found.tpot.mean, 1.5 * found.tpot.mean))
    rate = len(found.answers) / found.span
    assert within.rate == pytest.approx((0.9 * rate, 1.25 * rate))

    def kept(ttft: float, tpot: float) -> float:
        assert limits.ttft is not None and limits.tpot is not None
        return sum(
            ttft * each.ttft <= limits.ttft and tpot * (each.tpot or 0.0) <= limits.tpot
            for each in found.answers
        ) / len(found.answers)

    assert within.goodput[0] == pytest.approx(min(0.9 * kept(3, 1.5), kept(1, 1)) * rate)
    assert within.goodput[1] == pytest.approx(1.25 * kept(0.5, 0.8) * rate)
    assert within.goodput[0] < within.goodput[1]
    rows = within.as_dict(60.0, 2.0)
    tokens = rows["output_tokens_per_s"]
    assert rows["dollars_per_million_output_tokens"] == pytest.approx(
        [2e6 / tokens[1], 2e6 / tokens[0]]
    )


def test_an_open_loop_has_the_queues_of_slower_engines() -> None:
    """Close to what the engine can do, a slower one has a queue that no factor on times has."""
    load = drawn(1200, Lengths(1024), Lengths(16), rate=42)
    fleet = Fleet(engines(load, choices=Choices(sequences=64)))
    found = fleet.serve(load)
    within, plain = uncertain(found, Limits(), fleet), uncertain(found, Limits())
    assert within is not None and plain is not None
    assert within.ttft["p99"][1] > 2 * plain.ttft["p99"][1]
    assert within.rate[0] < 0.96 * within.rate[1]
    # Far below it, the load alone sets the rate.
    easy = drawn(60, Lengths(1024), Lengths(16), rate=1)
    calm = Fleet(engines(easy))
    within = uncertain(calm.serve(easy), Limits(), calm)
    assert within is not None
    assert within.rate[1] / within.rate[0] < 1.02
    assert "arrivals open" in within.extrapolated


def test_pauses_bound_the_rate_of_conversations() -> None:
    """Someone who thinks for 2 to 9 s sends no more than one request in that time, whatever the
    engine. Without simulated runs the response time law gives the same ends."""
    draw = random.Random(23)
    for _ in range(3):
        think = draw.uniform(2, 9)
        talks = draw.randint(1, 3)
        load = drawn(
            40 * talks, Lengths(draw.randint(1, 900)), Lengths(draw.randint(5, 200)),
            concurrency=talks, turns=Lengths(40), think=Lengths(think),
        )  # fmt: skip
        fleet = Fleet(engines(load))
        found = fleet.serve(load)
        limits = Limits(found.latency.most * 9, None)
        within, quick = uncertain(found, limits, fleet), uncertain(found, limits)
        assert within is not None and within.goodput is not None and quick is not None
        base = len(found.answers) / found.span
        assert within.rate[0] < base < within.rate[1]
        # A conversation of 40 turns has 39 pauses.
        most = 40 / 39 * talks / think
        assert within.rate[1] < most
        assert within.goodput[1] < most
        assert quick.rate == pytest.approx(within.rate, rel=0.02)


def test_what_nobody_measured_widens_and_is_named() -> None:
    load = drawn(40, Lengths(256), Lengths(32), concurrency=4)
    found = Fleet(engines(load)).serve(load)
    base = factors(found)
    assert base is not None
    assert not base[0].outside
    drafts = engines(load, choices=Choices(drafts=1, acceptance=(0.8,)))
    for platform, kind, said in (
        ("dgx-a100-80gb", None, "gpu A100"),
        ("dgx-h100", drafts, "drafts yes"),
        ("mi300x-8", None, "kernels rooflines"),
    ):
        made = factors(Fleet(kind or engines(load, platform)).serve(load))
        assert made is not None
        for one, other in zip(base, made, strict=True):
            assert said in other.outside
            assert other.width > one.width
            assert other.low <= 1 <= other.high


def test_residuals_hold_what_they_promise() -> None:
    """Engines on GPUs that neither the fit nor stretch and factors have seen."""
    for name in serving.QUANTITIES:
        table = tables.of(f"serving_{name}")
        held = count = 0
        for each, interval in table.new_sources():
            held += sum(interval.holds(math.exp(log)) for log in each.logs)
            count += len(each.logs)
        assert count > 500
        assert held / count > 0.7


def measured(load: Load, path: Path) -> None:
    """A run of a fleet that is 20 % slower than predicted, as a table."""
    slow = Fleet(engines(load)).stretched(1.2).serve(load)
    rows = [
        f"{each.arrival},{each.prompt},{each.output},{each.ttft},{each.latency}"
        for each in slow.answers
    ]
    head = "arrival_s,input_tokens,output_tokens,ttft_s,e2e_s\n"
    path.write_text(head + "\n".join(rows), encoding="utf-8")


def test_a_measured_run_moves_and_narrows(armillary: Armillary, tmp_path: Path) -> None:
    load = drawn(12, Lengths(500), Lengths(60), rate=8)
    measured(load, tmp_path / "run.csv")
    words = ["serve", "llama-3-8b", "-p", "dgx-h100", "--concurrency", "16", "--json", "-"]
    words += ["--num-requests", "64", "--no-what-if"]
    found = []
    for more in ((), ("--calibrate", "run.csv")):
        run = armillary(*words, *more, cwd=tmp_path)
        assert run.returncode == 0, run.stderr
        found.append(json.loads(run.stdout))
    (plain, after) = (each["result"] for each in found)
    assert after["tpot_ms"]["mean"] == pytest.approx(1.2 * plain["tpot_ms"]["mean"], rel=0.05)
    for name in ("ttft_ms", "tpot_ms"):
        before, now = (each["intervals"][name]["mean"] for each in (plain, after))
        assert now[1] / now[0] < before[1] / before[0]
        assert now[0] <= after[name]["mean"] <= now[1]
    assert "12 measured requests" in found[1]["warnings"][-1]


HEAD = "arrival_s,input_tokens,output_tokens,ttft_s,e2e_s\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "empty"),
        ("arrival_s,input_tokens,output_tokens\n0,5,5\n", "0 measured requests"),
        (HEAD + "0,5,5,0.1,0.2\n", "1 measured requests"),
        (HEAD + "0,5,5,-1,0.2\n" * 9, "-1"),
        (HEAD + "0,5,5,nan,0.2\n" * 9, "nan"),
        (HEAD + "0,5,5,0.1,x\n" * 9, "x"),
        (HEAD + "0,0,5,0.1,0.2\n" * 9, "0"),
        (HEAD + "0,5000,5,0.1,0.2\n" * 9, "request of 5005 tokens"),
        (HEAD + "0,5\n" * 9, "line 2"),
        ("\x00\x01\x02", "error:"),
        (None, "can't be read"),
    ],
)
def test_bad_runs_are_named(
    armillary: Armillary, tmp_path: Path, text: str | None, said: str
) -> None:
    if text is not None:
        (tmp_path / "run.csv").write_text(text, encoding="utf-8")
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "4", "--calibrate", "run.csv")
    run = armillary(*words, cwd=tmp_path)
    assert run.returncode == 2, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr


def test_only_one_pool_can_be_matched(armillary: Armillary, tmp_path: Path) -> None:
    measured(drawn(12, Lengths(50), Lengths(6), rate=8), tmp_path / "run.csv")
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "4", "--calibrate", "run.csv")
    run = armillary(*words, "--prefill", "tp=1", cwd=tmp_path)
    assert run.returncode == 2
    assert "without --prefill" in run.stderr


def test_plans_say_what_the_uncertainty_does_not_separate(
    armillary: Armillary, tmp_path: Path
) -> None:
    words = ("plan", "llama-3-8b", "-p", "dgx-h100", "--serve", "--simulations", "3")
    run = armillary(*words, "--slo", "tpot=20ms", "--json", "p.json", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    found = json.loads((tmp_path / "p.json").read_text())
    best, *others = found["deployments"]
    key = "output_tokens_per_s_per_gpu"
    alike = 0
    for each in others:
        low, high = best["intervals"][key]
        its = each["intervals"][key]
        alike += low <= each[key] <= high or its[0] <= best[key] <= its[1]
    assert found["alike"] == alike
    assert ("does not separate" in " ".join(run.stdout.split())) == (alike > 0)
