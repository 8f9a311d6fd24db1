"""Memory, bound and estimate of drawn layouts against their simulated steps."""

from __future__ import annotations

import statistics

import pytest
from drawn_steps import Drawn, draw, space_of
from thorough import usually

import armillary as arm
from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.workload.parallelism_reader import parallelism
from armillary.workload.transformer import footprints

CASES = [
    ("llama-3-8b", "dgx-h100-16n", 64, 12, 13),
    ("mixtral-8x7b", "dgx-h100-16n", 64, 12, 2),
    ("llama-3-8b", "dgx-a100-16n", 64, 6, 8),
    ("deepseek-v3", "dgx-h100-16n", 128, 4, 4),
]
"""Model, platform, ranks, number of layouts, seed."""


@pytest.mark.parametrize(("model", "platform", "ranks", "count", "seed"), CASES)
def test_no_bound_is_above_the_simulated_step(
    model: str, platform: str, ranks: int, count: int, seed: int
) -> None:
    """Memory is exact, no bound is above the step, and estimates are close to it."""
    target = Platform.load(platform, npus=ranks)
    drawn = list(draw(model, ranks, usually(count, 100 * count), seed))
    parts, indices = space_of(model, target, drawn)
    parts.space.search((2**63, 2**63), False, (len(drawn), 0), None)
    rows = {row[0]: row for row in parts.space.fastest(0, len(drawn))}
    errors = []
    for group, (each, data) in enumerate(zip(drawn, indices, strict=True)):
        memory = footprints(model, **each.options)
        held = parts.space.held(group, (data, 0))
        assert [sum(stage) for stage in held] == [stage.total for stage in memory], each.options
        step = arm.simulate(arm.workload.build(model, **each.options), target).step_time_ns * 1e3
        _, _, bound, estimate, size, _, _ = rows[group]
        assert size == max(stage.total for stage in memory)
        # Rounding: a step of ns, times of parts of ps.
        assert bound <= step * (1 + 1e-9) + 1000, each.options
        errors.append(abs(estimate / step - 1))
    assert statistics.median(errors) <= 0.01
    # Layouts whose collectives meet on all links are estimated worst.
    assert sorted(errors)[int(0.9 * len(errors))] <= 0.05


def test_no_bound_counts_the_latency_of_shared_buckets_twice() -> None:
    """Layers that share a bucket are gathered at once, with the latency of one collective."""
    target = Platform.load("dgx-h100-16n", npus=64)
    options: dict[str, object] = {
        "tp": 8,
        "pp": 2,
        "dp": 4,
        "zero": 1,
        "recompute": "full",
        "sp": True,
        "micro_batch": 2,
        "global_batch": 8,
        "framework_set": {"overlap_grad_reduce": False, "bucket_mb": 400},
    }
    layout = parallelism(decoder(load_model("mixtral-8x7b")), "mixtral-8x7b", options)
    parts, _ = space_of("mixtral-8x7b", target, [Drawn(options, layout)])
    parts.space.search((2**63, 2**63), False, (1, 0), None)
    ((_, _, bound, *_),) = parts.space.fastest(0, 1)
    workload = arm.workload.build("mixtral-8x7b", **options)
    step = arm.simulate(workload, target).step_time_ns * 1e3
    assert 0.99 * step <= bound <= step * (1 + 1e-9) + 1000
