"""What a stage adds to its layers: sums of gradients over micro-batches."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import slow_stream
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from test_transformer import EXPERTS, GPT, LLAMA, summary

import armillary as arm
from armillary.workload import Model, Program, build, stage
from armillary.workload.script import KernelStream


class Watched(Program):
    """A program that remembers what its kernels move."""

    def compute(
        self,
        name: str,
        deps: Sequence[int],
        *,
        operations: int | None = None,
        bytes: int | None = None,
        kernel: str = "other",
        duration_ps: int = 0,
        host: bool = False,
    ) -> int:
        KERNELS.append((name, bytes or 0))
        return super().compute(
            name,
            deps,
            operations=operations,
            bytes=bytes,
            kernel=kernel,
            duration_ps=duration_ps,
            host=host,
        )


KERNELS: list[tuple[str, int]] = []
"""Of the programs made since it was cleared."""


@pytest.fixture(autouse=True)
def watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage, "Program", Watched)
    monkeypatch.setattr(KernelStream, "play", slow_stream.play)


def sums(model: Model, **options: object) -> tuple[list[int], int]:
    """Bytes of sums of gradients by micro-batch, and the model's parameters."""
    KERNELS.clear()
    workload = build(model, **options)
    count = summary(workload).batch // int(str(options.get("dp", 1)))
    found = [0] * count
    for name, moved in KERNELS:
        if name.endswith(".accumulate"):
            found[int(name.split(".")[0])] += moved
    assert KERNELS
    return found, summary(workload).parameters


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    model=st.sampled_from([GPT, LLAMA]),
    zero=st.sampled_from([0, 1, 2, 3]),
    precision=st.sampled_from(["bf16", "fp8", "fp32"]),
    wide=st.booleans(),
    micro_batches=st.integers(1, 4),
    schedule=st.sampled_from(["1f1b", "zb-h1"]),
)
def test_gradients_are_added_up(
    model: Model, zero: int, precision: str, wide: bool, micro_batches: int, schedule: str
) -> None:
    """By plain PyTorch a parameter's gradient is read as it comes and the sum is read and written,
    after the first micro-batch; the first's is converted where sums are wider. ZeRO 2 and 3 reduce
    every micro-batch's instead."""
    found, parameters = sums(
        model,
        dp=2,
        global_batch=2 * micro_batches,
        zero=zero,
        precision=precision,
        fp32_gradients=wide,
        schedule=schedule,
        framework_set={"kernels": "eager"},
    )
    weight = 4 if precision == "fp32" else 2
    kept = 4 if wide else weight
    first = weight + kept if kept > weight else 0
    expected = [first] + [weight + 2 * kept] * (micro_batches - 1)
    assert found == [parameters * each if zero < 2 else 0 for each in expected]


def test_each_stage_adds_up_its_own() -> None:
    """Over two stages of an untied model, which hold all parameters between them; half on each of
    two ranks, but for norms, which both hold."""
    whole, parameters = sums(LLAMA, pp=2, global_batch=2, framework_set={"kernels": "eager"})
    assert whole == [0, 6 * parameters]
    cut, _ = sums(LLAMA, pp=2, tp=2, global_batch=2, framework_set={"kernels": "eager"})
    norms = (2 * 8 + 1) * 64
    assert cut == [0, 6 * (parameters - norms) // 2 + 6 * norms]


@pytest.mark.parametrize(("wide", "first", "later"), [(False, 0, 2), (True, 2, 6)])
def test_multiplications_add_up_themselves(wide: bool, first: int, later: int) -> None:
    """Fused ones read and write sums instead of writing gradients, which shows for experts only: 3
    x 8 of 64 x 32 in 7 layers."""
    none, _ = sums(LLAMA, global_batch=3, fp32_gradients=wide)
    assert none == [0, 0, 0]
    found, _ = sums(EXPERTS, global_batch=3, fp32_gradients=wide)
    assert found == [7 * 3 * 8 * 64 * 32 * each for each in (first, later, later)]


@pytest.mark.parametrize(
    ("options", "moved"),
    [
        # Read: gradient, two moments, master copy. Written: the latter three, and the weight.
        ({}, 2 + 12 + 12 + 2),
        ({"fp32_gradients": True}, 4 + 12 + 12 + 2),
        ({"moments": "bf16"}, 2 + 8 + 8 + 2),
        # The weight is the master copy.
        ({"precision": "fp32"}, 4 + 12 + 12),
        ({"precision": "fp32", "moments": "bf16"}, 4 + 8 + 8),
    ],
)
def test_adam_reads_and_writes_its_state(options: dict[str, object], moved: int) -> None:
    KERNELS.clear()
    workload = build(LLAMA, **options)
    found = [size for name, size in KERNELS if name == "step.optimizer"]
    assert found == [moved * summary(workload).parameters]


@pytest.mark.parametrize("micro_batches", [1, 3])
def test_what_is_needed_is_gathered_again(micro_batches: int) -> None:
    """Not the embedding, whose gradients don't depend on it, nor the head, where the forward pass
    ends."""
    counts = []
    for regather in ("all", "needed"):
        made = build(
            LLAMA,
            dp=2,
            zero=3,
            global_batch=2 * micro_batches,
            framework_set={"regather": regather},
        )
        rows = made.amounts()
        counts.append(sum(row[4] for row in rows if row[2] == "all_gather"))
    assert counts[0] - counts[1] == 2 * micro_batches


def test_stages_may_wait_for_what_they_send() -> None:
    """In rounds, each message but the first ones takes its time; else it passes while others
    compute."""
    steps = []
    for overlaps in (True, False):
        behaviour = {"overlap_p2p": overlaps}
        made = build(LLAMA, pp=8, schedule="gpipe", global_batch=4, framework_set=behaviour)
        steps.append(arm.simulate(made, "dgx-h100").step_time_ns)
    assert steps[1] > steps[0]
