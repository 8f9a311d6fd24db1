"""Layouts that recompute a number of layers: the fewest that fit, against all numbers in turn."""

from __future__ import annotations

import random
from typing import Any

import pytest
from thorough import usually

import armillary as arm
from armillary.errors import ImpossibleError
from armillary.layouts.job import Job
from armillary.layouts.search import Search, opened, search
from armillary.platform import Platform
from armillary.workload.transformer import footprints

PLATFORM = "dgx-h100-16n"
MODELS = ("llama-3-8b", "mixtral-8x7b", "llama-3-70b")


def _job(seed: int) -> tuple[Job, Platform]:
    """A job on few ranks, in whose memory some layers have to be recomputed."""
    rng = random.Random(seed)
    model = MODELS[seed % len(MODELS)]
    ranks = 32 if model == "llama-3-70b" else 16
    layout: dict[str, tuple[object, ...]] = {
        "tp": (4,) if model == "llama-3-70b" else (rng.choice((1, 2)),),
        "pp": tuple(rng.sample((2, 4), rng.choice((1, 2)))),
        "cp": (1,),
        "ep": (4,) if model == "mixtral-8x7b" else (1,),
        "etp": (None,),
        "micro_batch": (rng.choice((1, 2)),),
        "schedule": ("1f1b", "zb-h1"),
        "virtual_stages": (1, rng.choice((1, 2))),
        "layers_per_stage": (rng.choice((None, "cost")),),
        "overlap_passes": (False,),
        "zero": (rng.choice((1, 3)),),
        "zero_group": (None,),
        "recompute": ("none", "full"),
        "recompute_modules": (None,),
        "recompute_layers": (None, *sorted(rng.sample(range(1, 20), 2))),
    }
    target = Platform.load(PLATFORM, npus=ranks)
    return Job.of(model, ranks, global_batch=32, seq=8192, layout=layout), target


def _every(found: Search) -> list[tuple[int, int, dict[str, object]]]:
    """All layouts with all numbers of layers: group, choice of data parallelism, options."""
    space = found.space
    return [
        (group, at, space.options(group, (space.first[group] + at, place)))
        for group, shards in enumerate(space.shards)
        for at in range(len(shards))
        for place in range(len(space.counts[group]))
    ]


@pytest.mark.parametrize("seed", range(1, usually(2, 25)))
def test_the_winner_equals_that_of_all_numbers(seed: int) -> None:
    """No number of layers that was left out is faster, and a step with more layers is not."""
    job, target = _job(seed)
    every = _every(opened(job, target))
    steps: dict[tuple[int, int], list[float]] = {}
    for group, at, options in every:
        run = arm.simulate(arm.workload.build(job.model, **options), target)
        if run.fits == "yes":
            steps.setdefault((group, at), []).append(run.step_time_ns)
    given: dict[str, Any] = {"global_batch": 32, "seq": 8192, "layout": job.layout}
    found = search(job.model, target, **given)
    assert found.fitting == len(steps)
    assert found.winner.step_ns == min(map(min, steps.values()))
    for each in steps.values():
        assert each == sorted(each)


def test_a_layout_has_the_fewest_layers_that_fit() -> None:
    """With any limit: the memory of each number is that of a run, and no smaller number fits."""
    job, target = _job(0)
    found = opened(job, target)
    space, core = found.space, found.space.parts.space
    group = max(range(len(space.counts)), key=lambda at: len(space.counts[at]))
    data, counts = space.first[group], space.counts[group]
    sizes = []
    for place in range(len(counts)):
        held = core.held(group, (data, place))
        memory = footprints(job.model, **space.options(group, (data, place)))
        assert [sum(stage) for stage in held] == [stage.total for stage in memory]
        sizes.append(max(map(sum, held)))
    assert len(sizes) > 1 and sizes == sorted(sizes, reverse=True)
    for place, size in enumerate(sizes):
        first = sizes.index(size)
        assert core.first_that_fits(group, data, size) == ((data, first), size), place
    assert core.first_that_fits(group, data, 0) == ((data, len(counts) - 1), sizes[-1])


def test_numbers_that_are_given_are_searched_alone() -> None:
    """With 2 layers, or all of them; a number above the layers of each part is no layout."""
    few: dict[str, tuple[object, ...]] = {"tp": (2,), "pp": (2,), "cp": (1,), "zero": (1,)}
    one: dict[str, tuple[object, ...]] = {"schedule": ("1f1b",), "virtual_stages": (1,)}
    for numbers, wanted in (((2,), {2}), ((None, 40), {None}), ((16,), {16})):
        layout = {**few, **one, "recompute": ("full",), "recompute_layers": numbers}
        job = Job.of("llama-3-8b", 8, global_batch=8, layout=layout)
        space = opened(job, Platform.load(PLATFORM, npus=8)).space
        found = {count for counts in space.counts for count in counts}
        assert found == wanted, numbers
    with pytest.raises(ImpossibleError, match="no part of the pipeline has more than 16"):
        footprints("llama-3-8b", pp=2, recompute="full", recompute_layers=40)
