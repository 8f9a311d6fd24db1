"""Reasons of refused layouts, recomputed from what their tensors add up to, and whether recommended
layouts run."""

from __future__ import annotations

import random
from collections import Counter
from itertools import count

import pytest
from memory_by_hand import added_up
from thorough import some, usually

import armillary as arm
from armillary.errors import InputError
from armillary.layouts.job import Job
from armillary.layouts.result import Refused
from armillary.layouts.search import Search, _reason, opened, search
from armillary.model.decoder_reader import decoder
from armillary.model.files import Model
from armillary.platform import Platform
from armillary.workload import build
from armillary.workload.decoder_plan import DecoderPlan
from armillary.workload.parallelism_reader import parallelism
from armillary.workload.setting import Setting
from armillary.workload.summary import Memory

_SPACES = (
    ("llama-3-8b", "dgx-a100-16n", (8, 16)),
    ("llama-3-70b", "dgx-h100-16n", (32, 64)),
    ("mixtral-8x7b", "dgx-h100-16n", (16, 32)),
    ("qwen3-30b-a3b", "dgx-b200-16n", (16, 32)),
    ("deepseek-v3", "hgx-h200-16n", (128,)),
)
_EACH = 40
"""Most reasons of one space."""
_PARTS = ("weights", "gradients", "optimizer", "activations", "temporary")
_WORDS = {"optimizer state": "optimizer", "temporary buffers": "temporary"}
_FREES = ("recompute_modules", "recompute", "recompute_layers", "zero", "zero_group", "sp")


def _space(number: int) -> Search:
    """A space whose layouts are drawn from values that are searched by default."""
    rng = random.Random(number)
    model, name, counts = _SPACES[number % len(_SPACES)]
    ranks = rng.choice(counts)
    large = ranks > 64
    layout: dict[str, tuple[object, ...]] = {
        "tp": (4, 8) if large else (1, 2, 4),
        "pp": (4, 8) if large else (1, 2, 4),
        "cp": rng.choice([(1,), (1, 2)]),
        "micro_batch": tuple(sorted(rng.sample((1, 2, 4, 8), 2))),
        "schedule": rng.choice([("1f1b",), ("1f1b", "zb-h1"), ("dualpipe", "1f1b")]),
        "virtual_stages": (1, 2),
        "overlap_passes": (False,),
    }
    some = rng.sample(range(1, 20), 3)
    layout["recompute_layers"] = (None, *sorted(some)) if rng.random() < 0.8 else (None,)
    layout["zero_group"] = rng.choice([(None,), (None, 2), (None, 4)])
    layout["layers_per_stage"] = (rng.choice((None, "cost")),)
    if model in ("mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3"):
        layout["ep"] = rng.choice([(1, 4), (8,), (4, 8)])
    if rng.random() < 0.3:
        layout["attention"] = ("unfused",)
    target = Platform.load(name, npus=ranks)
    job = Job.of(
        model,
        ranks,
        global_batch=ranks * rng.choice([2, 4, 8]),
        seq=rng.choice([2048, 4096, 8192]),
        layout=layout,
        framework=rng.choice([None, None, "megatron-lm"]),
        near=rng.random() < 0.3,
    )
    return opened(job, target)


def _stages(model: Model, options: dict[str, object]) -> list[Memory]:
    shape = decoder(model)
    plan = DecoderPlan(Setting(shape, parallelism(shape, model.name, options)))
    return [added_up(plan, stage)[0] for stage in range(plan.at.par.pp)]


def _fits(found: Search, size: int) -> bool:
    return found.target.fits(size) in (("yes", "near") if found.job.near else ("yes",))


def _change(found: Search, options: dict[str, object]) -> dict[str, object] | None:
    """The single change after which the layout fits and that frees least."""
    fitting = []
    shape = decoder(found.job.model)
    now = parallelism(shape, found.job.model.name, options)
    for name in _FREES:
        for value in found.space.axes[name]:
            if value == getattr(now, name) or (name == "zero" and now.copies == 1):
                continue
            changed = {**options, name: value}
            if name == "recompute_layers" and value is not None:
                changed["recompute"] = "full"
            # A layout without it, not one with the default.
            changed = {key: each for key, each in changed.items() if each is not None}
            try:
                size = max(stage.total for stage in _stages(found.job.model, changed))
            except InputError:
                continue
            if _fits(found, size):
                # Of equal ones the fewest layers.
                order = f"{value:4}" if isinstance(value, int) else str(value)
                fitting.append((-size, name, order, value))
    if not fitting:
        return None
    _, name, _, value = min(fitting, key=lambda each: each[:3])
    if name == "recompute_layers" and value is not None and now.recompute != "full":
        return {"recompute": "full", name: value}
    return {name: value}


def _holds(found: Search, refused: Refused) -> None:
    """A reason is true, and its way out too."""
    options = dict(refused.options)
    stages = _stages(found.job.model, options)
    most = max(stage.total for stage in stages)
    fullest = stages[refused.stage]
    assert refused.memory_bytes == most == fullest.total, options
    sizes = {name: getattr(fullest, name) for name in _PARTS}
    part = _WORDS.get(refused.part, refused.part)
    assert refused.part_bytes == sizes[part] == max(sizes.values()), options
    assert not _fits(found, most)
    assert refused.over_bytes > 0
    assert _fits(found, most - refused.over_bytes)
    assert not _fits(found, most - refused.over_bytes + 1)
    assert refused.fits_with == _change(found, options), options


@pytest.mark.parametrize("first", some(range(len(_SPACES))))
def test_reasons_hold(first: int) -> None:
    """Bytes, stage and part of each reason, and the change that frees least."""
    counts: Counter[str] = Counter()
    wanted = usually(6, 200)
    for number in count(first, len(_SPACES)):
        if counts["reasons"] >= wanted:
            break
        found = _space(number)
        rows = found.space.parts.space.refused(found.limits, found.job.near, 2**63, 2000)
        rng = random.Random(number)
        each = min(wanted - counts["reasons"], _EACH, len(rows))
        for row in rng.sample(rows, each):
            refused = _reason(found, row)
            _holds(found, refused)
            counts["reasons"] += 1
            counts[refused.part] += 1
            counts["no single change" if refused.fits_with is None else "a change"] += 1
            counts.update(list(refused.fits_with or ()))
            if counts["reasons"] % 10 == 1:
                made = build(found.job.model, **refused.options)
                assert made.summary is not None
                assert made.summary.memory == refused.memory_bytes
        print(_SPACES[first], f"space {number}", dict(counts))


@pytest.mark.parametrize("number", range(usually(1, 15)))
def test_recommended_layouts_run(number: int) -> None:
    """Each layout that a search recommends fits, as `run` says, and has the same step."""
    space = _space(number)
    job, target = space.job, space.target
    try:
        found = search(
            job.model,
            target,
            global_batch=job.global_batch,
            seq=job.seq,
            layout=job.layout,
            framework=job.framework,
            near=job.near,
            simulations=6,
        )
    except InputError as error:
        assert "no layout fits" in str(error)
        return
    for each in found.best:
        run = arm.simulate(build(job.model, **each.options), target)
        assert run.fits == each.fits
        assert run.fits == "yes" or job.near
        assert run.step_time_ns == each.step_ns
