"""`armillary goodput`: against Daly's closed form, renewal theory, and published interruptions."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from conftest import Armillary
from thorough import usually

from armillary.errors import InputError
from armillary.goodput import Job, formulas, goodput
from armillary.goodput.job import DAY_S, check
from armillary.goodput.simulate import PARTS, simulate, variation
from armillary.goodput.words import gaps, law, seconds

META = Job(nodes=2048, mtbf_s=238 * DAY_S, days=54, interval_s=3600.0)
"""A node fails every 238 days: 16,384 GPUs in 54 days had 419 interruptions (Llama 3)."""


@pytest.mark.parametrize("seed", range(usually(10, 300)))
def test_exponential_failures_follow_daly(seed: int) -> None:
    """Over all settings that users have: goodputs from some 10 % to 99 %."""
    draw = random.Random(seed)
    gap = 10 ** draw.uniform(3, 6)
    checkpoint = gap * 10 ** draw.uniform(-4, -1)
    down = gap * 10 ** draw.uniform(-3, -0.3)
    interval = formulas.daly(checkpoint, gap) * 2 ** draw.uniform(-2, 2)
    nodes = draw.randint(1, 5000)
    job = Job(nodes=nodes, mtbf_s=gap * nodes, checkpoint_s=checkpoint, detect_s=down / 3,
              restart_s=down * 2 / 3, days=300 * gap / DAY_S)  # fmt: skip
    found = simulate(job, interval, 300, seed)
    expected = formulas.goodput(interval, checkpoint, down, gap)
    assert found.goodput.mean() == pytest.approx(expected, rel=0.02)
    whole = sum(found.parts[name] for name in PARTS)
    assert whole == pytest.approx(np.full(300, job.days * DAY_S))
    assert all((found.parts[name] >= -1e-6).all() for name in PARTS)


def test_the_best_interval_is_that_of_theory() -> None:
    """No interval has a goodput in Daly's closed form that is clearly better."""
    job = Job(nodes=1000, mtbf_s=1000 * 20_000.0, checkpoint_s=120, days=60)
    found = goodput(job, runs=400)
    assert found.job.interval_s is not None and found.daly_goodput is not None
    best = max(
        formulas.goodput(found.daly_s * 2 ** (at / 20), 120, job.down_s, 20_000)
        for at in range(-40, 41)
    )
    assert found.daly_goodput > best - 0.001
    assert found.goodput.mean == pytest.approx(found.daly_goodput, abs=0.005)
    values = [each.value for each in found.intervals]
    assert values == sorted(values)


def test_interruptions_of_another_cluster() -> None:
    """Failures every 238 node-days with a variation of 1.76: the interval holds the 419 that were
    counted on 2,048 nodes in 54 days, within 25 % to each side. A Poisson process misses them."""
    found = goodput(replace(META, law="gamma", shape=1.76), runs=4000)
    mean, low, high = found.failures.mean, found.failures.low, found.failures.high
    assert mean == pytest.approx(54 * 2048 / 238, rel=0.02)
    assert 0.75 * mean < low < 419 < high < 1.25 * mean
    assert found.exponential is not None
    _, poisson = found.exponential
    assert (poisson.low, poisson.high) == pytest.approx((422, 507), abs=4)
    assert poisson.low > 419
    # What a rate from 2,000 failures adds: 1.76 / sqrt(2000) = 4 % of the mean.
    more = goodput(replace(META, law="gamma", shape=1.76, observed=2000), runs=4000).failures
    width = more.high - more.low
    expected = 2 * 1.96 * mean * 1.76 * (1 / mean + 1 / 2000) ** 0.5
    assert high - low < width == pytest.approx(expected, rel=0.08)


@pytest.mark.parametrize(("name", "shape"), [("weibull", 0.7), ("weibull", 2.5), ("gamma", 0.4)])
def test_counts_spread_as_renewal_theory_says(name: str, shape: float) -> None:
    """The variance of a count is its mean times the squared variation of the gaps (Cox, Renewal
    Theory, 1962)."""
    job = replace(META, law=name, shape=shape)  # type: ignore[arg-type]
    failures = simulate(job, 3600.0, 3000, 1).failures
    mean = 54 * 2048 / 238
    assert failures.mean() == pytest.approx(mean, rel=0.02)
    assert failures.std() == pytest.approx(variation(job) * mean**0.5, rel=0.08)


def test_recorded_gaps_are_drawn_again() -> None:
    """Gaps of one length come at equal distances; their length is that of the mean given."""
    job = replace(META, law="recorded", gaps=(7.0, 7.0, 7.0))
    failures = simulate(job, 3600.0, 20, 0).failures
    assert set(failures.tolist()) == {int(54 * DAY_S / job.gap_s)}
    uneven = replace(META, law="recorded", gaps=(1.0, 1.0, 10.0))
    assert variation(uneven) == pytest.approx(np.std([1, 1, 10]) / 4)


def test_spare_nodes_never_harm_and_end_all_waits() -> None:
    job = replace(META, repair_s=12 * 3600.0)
    found = goodput(job, runs=200)
    rows = [each.goodput for each in found.spares]
    assert rows == sorted(rows) and found.spares[0].value == 0
    assert rows[0] == pytest.approx(found.goodput.mean)
    many = simulate(replace(job, spares=500), 3600.0, 200, 0)
    never = simulate(replace(job, repair_s=0.0), 3600.0, 200, 0)
    assert many.parts["waiting"].sum() == 0
    assert many.parts["trained"] == pytest.approx(never.parts["trained"])


def test_a_job_without_spares_waits_for_its_repairs() -> None:
    """Failures that are far apart: each costs a repair, detection hidden in it."""
    job = Job(nodes=1, mtbf_s=100 * DAY_S, repair_s=2 * DAY_S, detect_s=0, restart_s=3600,
              checkpoint_s=0, interval_s=3600, days=3000)  # fmt: skip
    found = simulate(job, 3600.0, 400, 0)
    each = found.parts["waiting"].sum() / found.failures.sum()
    assert each == pytest.approx(2 * DAY_S, rel=0.05)


def test_checkpoints_that_are_still_written_do_not_count() -> None:
    """Written for an hour while training goes on: each failure loses up to two checkpoints of half
    an hour more, as far as there are any since the last one."""
    late = simulate(replace(META, write_s=3600.0, checkpoint_s=0.0), 1800.0, 100, 0)
    soon = simulate(replace(META, checkpoint_s=0.0), 1800.0, 100, 0)
    more = (late.parts["lost"] - soon.parts["lost"]).sum() / late.failures.sum()
    chances = (math.exp(-(time + META.down_s) / META.gap_s) for time in (1800, 3600))
    assert more == pytest.approx(1800 * sum(chances), rel=0.03)
    assert (late.failures == soon.failures).all()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"nodes": 0}, "invalid nodes: 0"),
        ({"mtbf_s": 0.0}, "invalid mtbf: 0"),
        ({"mtbf_s": float("nan")}, "invalid mtbf: nan"),
        ({"checkpoint_s": -1.0}, "invalid checkpoint: -1"),
        ({"interval_s": 0.0}, "invalid interval: 0"),
        ({"spares": -1}, "invalid spares: -1"),
        ({"days": 0.0}, "invalid days: 0"),
        ({"days": 10_000.0, "nodes": 1_000_000}, "failures in 10000 days"),
        ({"law": "normal"}, "unknown law: 'normal'"),
        ({"law": "recorded"}, "belong together"),
        ({"gaps": (1.0, 2.0)}, "belong together"),
        ({"law": "recorded", "gaps": (0.0, 0.0)}, "not all 0"),
        ({"law": "gamma", "shape": 0.0}, "invalid shape: 0"),
    ],
)
def test_wrong_jobs_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(InputError) as caught:
        check(replace(META, **change))  # type: ignore[arg-type]
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "5", "-5s", "5 weeks", "1e999d", "s", "nan", "\u0663s", "9" * 5000 + "s"]
)
def test_times_are_read_or_refused(text: str) -> None:
    if text == "5":
        assert seconds(text, "--x") == 5
        assert (seconds("90s", ""), seconds("1.5 h", ""), seconds("238d", "")) == (
            90,
            5400,
            238 * DAY_S,
        )
        return
    with pytest.raises(InputError, match="invalid time"):
        seconds(text, "--x")


@pytest.mark.parametrize("text", ["normal", "weibull", "gamma:", "gamma:-1", "weibull:1e9", "x:1"])
def test_wrong_laws_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="invalid law"):
        law(text)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "has 0 gaps"),
        ("gap\n1h\n", "has 1 gaps"),
        ("1h\n2x\n", 'line 2: invalid time: "2x"'),
        ("1h\n-2h\n", "line 2"),
        ("1h\n" + "9" * 5000 + "\n", "line 2"),
        ("# gaps\nhours\n1h\n2h\n", "line 2"),
        ("gap\n1h\n# more\n\n30 min\n", ""),
    ],
)
def test_files_of_gaps(text: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "gaps.csv"
    file.write_text(text, encoding="utf-8")
    if not said:
        assert gaps(str(file)) == (3600.0, 1800.0)
        return
    with pytest.raises(InputError) as caught:
        gaps(str(file))
    assert said in str(caught.value)


def test_the_verb(armillary: Armillary, tmp_path: Path) -> None:
    """Text, JSON and page; the same words give the same bytes."""
    (tmp_path / "gaps.csv").write_text("1h\n3h\n20h\n", encoding="utf-8")
    words = [*("goodput", "--nodes", "512", "--mtbf", "100d", "--days", "20", "--runs", "50")]
    words += ["--repair", "6h", "--gaps", "gaps.csv", "--step", "4s"]
    run = armillary(*words, "--json", "a.json", "--report", "a.html", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    assert "of the time trains and is kept" in run.stdout
    found = json.loads((tmp_path / "a.json").read_text())
    assert found["schema"] == "armillary.goodput/1"
    assert sum(found["parts"].values()) == pytest.approx(1)
    assert found["effective_step_s"] == pytest.approx(4 / found["goodput"]["mean"])
    assert found["exponential"] is not None and found["daly_goodput"] is None
    assert "Goodput by interval" in (tmp_path / "a.html").read_text()
    armillary(*words, "--json", "b.json", cwd=tmp_path)
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    for wrong in (("--law", "gamma:2"), ("--runs", "5"), ("--interval", "x"), ("--nodes", "-1")):
        run = armillary(*words, *wrong, cwd=tmp_path)
        assert run.returncode == 2 and "Traceback" not in run.stderr, wrong
