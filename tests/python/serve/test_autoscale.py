"""Engines that start and stop with the load, against the rule by hand."""

from __future__ import annotations

import json
import math
import random
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from conftest import Armillary

from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.serve import (
    Choices,
    Layout,
    Lengths,
    Load,
    Precision,
    Request,
    deploy,
    drawn,
    load_engine,
)
from armillary.serve.autoscale import autoscaled, sizes
from armillary.serve.fleet import Fleet
from armillary.serve.scaling import Rule, rule


def fleet(load: Load, count: int = 1) -> Fleet:
    engines = deploy(
        decoder(load_model("llama-3-8b")), Platform.load("dgx-h100"), load_engine("vllm"),
        Layout(), Precision(), count=count, longest=load.longest, choices=Choices(caching=False),
    )  # fmt: skip
    return Fleet(engines, routing="least_loaded")


def test_a_burst_starts_engines_after_the_delay_and_stops_them_after_the_window() -> None:
    """40 requests at 0.5 s and a goal of 10: 3 more engines are wanted at the look at 1 s, and take
    requests from 3 s on. All is done long before 60 s, when a last request comes."""
    burst = 40
    requests = tuple(Request(((number, 64),), 900) for number in range(burst + 2))
    seconds = [0.5] * burst + [3.5, 60.0]
    load = Load(requests, tuple(round(at * 1e12) for at in seconds))
    by = Rule(1, 4, 10.0, every=1.0, delay=2.0, window=5.0)
    made = fleet(load, 4)
    served = made.serve(load, scaling=by)
    assert served.lifetimes is not None
    changes, total = served.lifetimes
    assert changes[:2] == ((0.0, 1), (1.0, 4))
    # All of the burst is on the first engine; what comes after 3 s is on another one.
    assert {each.engine for each in served.answers[:burst]} == {0}
    assert served.answers[burst].engine != 0
    # Looks want few again once the burst is done; engines stop when the last look that wanted
    # more is older than the window.
    done = max(each.end for each in served.answers[:burst])
    down = next(at for (_, one), (at, other) in pairwise(changes) if other < one)
    assert down == pytest.approx(math.floor(done) + by.window + by.every)
    assert changes[-1][1] == 1
    assert served.answers[-1].engine in range(4)
    end = max(each.end for each in served.answers)
    spans = zip(changes, (*changes[1:], (end, 0)), strict=True)
    assert total == pytest.approx(sum(count * (to - at) for (at, count), (to, _) in spans))


def test_more_engines_than_wanted_change_nothing() -> None:
    """A rule that always wants all engines is the fixed fleet; one that never wants more is one
    engine."""
    load = drawn(80, Lengths(300), Lengths(60), rate=20)
    for least, most, goal in ((3, 3, 1.0), (1, 3, 1e6)):
        by = Rule(least, most, goal, every=0.5, delay=0.0, window=1.0)
        scaled = fleet(load, most).serve(load, scaling=by)
        fixed = fleet(load, least).serve(load)
        assert scaled.answers == fixed.answers
        assert scaled.lifetimes is not None
        end = max(each.end for each in scaled.answers)
        assert scaled.lifetimes[1] == pytest.approx(least * end)


def test_drawn_rules_keep_their_bounds() -> None:
    draw = random.Random(3)
    for _ in range(8):
        load = drawn(
            120, Lengths(200), Lengths(80), rate=draw.uniform(5, 60), seed=draw.randrange(9)
        )
        least = draw.randint(1, 3)
        by = Rule(
            least, draw.randint(least, 6), draw.uniform(1, 30), draw.random() < 0.5,
            draw.uniform(0.1, 2), draw.uniform(0, 3), draw.uniform(0, 3),
        )  # fmt: skip
        scaled, *fixed = autoscaled(fleet(load), load, by)
        assert [each.engines for each in fixed] == sizes(by)
        assert all(by.least <= count <= by.most for _, count in scaled.changes)
        assert by.least <= round(scaled.engines, 6) <= by.most
        assert len(scaled.served.answers) == 120
        for one, other in pairwise(fixed):
            assert other.gpu_hours > one.gpu_hours


def test_rules_are_read() -> None:
    found = rule("max=8, concurrency=32, delay=90s, every=500ms")
    assert found == Rule(1, 8, 32.0, every=0.5, delay=90.0, window=300.0)
    assert rule("min=2,max=2,queue=4,window=0s") == Rule(2, 2, 4.0, True, window=0.0)
    assert rule("max=3,queue=4,delay=7").delay == 7.0
    assert sizes(Rule(1, 4, 1.0)) == [1, 2, 3, 4]
    many = sizes(Rule(1, 100, 1.0))
    assert (many[0], many[-1], len(many)) == (1, 100, 8)


def test_the_verb_compares_fleets(armillary: Armillary, tmp_path: Path) -> None:
    words = (
        "serve",
        "llama-3-8b",
        "-p",
        "dgx-h100",
        "--rate",
        "20",
        "--no-what-if",
        "--price",
        "2",
    )
    text = "min=1,max=2,concurrency=8,delay=1s,every=1s,window=2s"
    more = (
        "--no-what-if",
        "--slo",
        "ttft=1s",
        "--json",
        "s.json",
        "--report",
        "s.html",
        "--autoscale",
        text,
    )
    run = armillary(*words, *more, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "always 2" in run.stdout
    found = json.loads((tmp_path / "s.json").read_text())
    scaled, one, two = found["autoscale"]["fleets"]
    assert scaled["dollars"] == pytest.approx(2 * scaled["gpu_hours"])
    assert one["goodput_per_s"] == pytest.approx(found["result"]["slo"]["requests_per_s"])
    assert two["gpu_hours"] > one["gpu_hours"]
    assert scaled["engines_over_time"][0] == {"time_s": 0.0, "engines": 1}
    assert found["autoscale"]["rule"]["concurrency"] == 8
    assert "Engines over time" in (tmp_path / "s.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("text", "more", "said"),
    [
        ("", (), "invalid part"),
        ("max=2", (), "needs concurrency or queue"),
        ("max=2,concurrency=4,queue=4", (), "needs concurrency or queue"),
        ("concurrency=4", (), "1 <= min <= max"),
        ("min=3,max=2,concurrency=4", (), "1 <= min <= max"),
        ("max=99999,concurrency=4", (), "1 <= min <= max"),
        ("max=2,concurrency=0", (), "invalid part"),
        ("max=2,concurrency=-4", (), "invalid part"),
        ("max=2,concurrency=4,max=3", (), "invalid part"),
        ("max=2,concurrency=4,delay=soon", (), "invalid part"),
        ("max=2,concurrency=4,delay=-1s", (), "invalid part"),
        ("max=2,concurrency=4,delay=nan", (), "invalid part"),
        ("max=2,concurrency=4,every=0s", (), "more often"),
        ("max=2,concurrency=4,speed=9", (), "invalid part"),
        ("max=9,concurrency=4", (), "9 engines of 1 GPU, but"),
        ("max=2,concurrency=4", ("--prefill", "tp=1"), "do not start and stop"),
    ],
)
def test_bad_rules_are_named(
    armillary: Armillary, text: str, more: tuple[str, ...], said: str
) -> None:
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "20", "--no-what-if")
    run = armillary(*words, "--num-requests", "5", "--autoscale", text, *more)
    assert run.returncode == 2, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr


STOPPED = """
import sys
import armillary_command
from armillary.serve import autoscale

plain = autoscale.autoscaled


def stopped(*given):
    for number, each in enumerate(plain(*given)):
        if number == 2:
            raise KeyboardInterrupt
        yield each


autoscale.autoscaled = stopped
sys.exit(armillary_command.main())
"""
"""The verb with a Ctrl-C after the second fleet."""


def test_finished_fleets_are_written_after_a_stop(tmp_path: Path) -> None:
    words = ["serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "20", "--num-requests", "20"]
    words += ["--autoscale", "max=3,concurrency=4", "--json", "s.json"]
    run = subprocess.run(
        [sys.executable, "-c", STOPPED, *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 130, run.stderr
    assert run.stderr.endswith("interrupted; what was finished is written\n")
    found = json.loads((tmp_path / "s.json").read_text())
    assert [each["said"] for each in found["autoscale"]["fleets"]] == ["autoscaled", "always 1"]
    assert found["result"]["intervals"]["level"] == 0.8
    assert found["what_if"] == []
    assert run.stderr.count("autoscaling is of 1 engine, without the rule") == 1
    assert found["warnings"][-1].startswith("all but the table and chart of autoscaling")


def test_no_service_level_is_kept_where_none_is_given(armillary: Armillary, tmp_path: Path) -> None:
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "20", "--num-requests", "40")
    more = ("--no-what-if", "--json", "s.json", "--autoscale", "max=2,concurrency=8,delay=1s")
    run = armillary(*words, *more, cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "requests/s" in run.stdout
    assert "kept" not in run.stdout
    assert "service level" not in run.stdout
    found = json.loads((tmp_path / "s.json").read_text())
    for fleet_ in found["autoscale"]["fleets"]:
        assert fleet_["goodput_per_s"] is fleet_["share_within_slo"] is None
    one = found["autoscale"]["fleets"][1]
    assert one["requests_per_s"] == pytest.approx(found["result"]["requests_per_s"])


@pytest.mark.parametrize("extra", [("--replicas", "4"), ("--csv", "-"), ("--timeline", "t.gz")])
def test_options_of_one_fleet_are_refused(
    armillary: Armillary, tmp_path: Path, extra: tuple[str, str]
) -> None:
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "20", "--no-what-if")
    run = armillary(*words, "--autoscale", "max=2,concurrency=8", *extra, cwd=tmp_path)
    assert run.returncode == 2
    assert f"in: {extra[0]}" in run.stderr
    assert "--autoscale" in run.stderr
