"""Scripts that the core plays, against the same operations added one by one."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
import slow_stream
from hypothesis import given
from hypothesis import strategies as st

from armillary.workload import Program, Workload
from armillary.workload.script import (
    CollectiveStep,
    Exchange,
    Gemm,
    KernelStep,
    KernelStream,
    Ring,
    Start,
    Step,
    Wait,
)

RINGS = (Ring(1, 2), Ring(1, -1), Ring(-2, -1))
"""Of three ranks."""


def written(programs: Sequence[Program], folder: Path) -> bytes:
    """The programs as files."""
    groups = {"tp": [0, 1, 2], "tp'": [0, 1, 2]}
    Workload.listed("w", programs, [0, 1, 2], groups).write(folder)
    return b"".join(file.read_bytes() for file in sorted(folder.iterdir()))


SIZES = st.integers(1, 2**31)
STEPS = st.one_of(
    st.builds(
        Gemm,
        st.just("gemm"),
        SIZES,
        SIZES,
        SIZES,
        st.integers(1, 9),
        st.sampled_from([0, 1, 4]),
        st.booleans(),
    ),
    st.builds(
        KernelStep,
        st.just("work"),
        st.sampled_from(["other", "attention", "optimizer"]),
        SIZES,
        SIZES,
    ),
    st.builds(
        CollectiveStep,
        st.just("call"),
        st.sampled_from(["all_reduce", "all_gather"]),
        SIZES,
        st.just("tp"),
    ),
)
PARTS = st.one_of(
    st.lists(STEPS, max_size=4).map(tuple),
    st.tuples(
        st.sampled_from([Start("s", "all_reduce", 8, "tp"), Exchange("s", 64)]),
        STEPS,
        st.just(Wait("s")),
    ),
)


@given(st.lists(st.tuples(PARTS, st.sampled_from(["", "'"])), max_size=6))
def test_a_script_is_its_operations(
    tmp_path_factory: pytest.TempPathFactory, parts: list[tuple[tuple[Step, ...], str]]
) -> None:
    slow, fast = ([KernelStream(Program(), 2, ring) for ring in RINGS] for _ in range(2))
    for index, (script, suffix) in enumerate(parts * 2):  # twice: the second time as it is known
        for one, other in zip(slow, fast, strict=True):
            one.suffix = other.suffix = suffix
            slow_stream.play(one, f"{index}.", script)
            other.play(f"{index}.", script)
    for one, other in zip(slow, fast, strict=True):
        assert (other.after, other.started, other.tags) == (one.after, one.started, one.tags)
        assert (other.program.volumes, other.program.operations) == (
            one.program.volumes,
            one.program.operations,
        )
    folder = tmp_path_factory.mktemp("script")
    programs = [[each.program for each in some] for some in (slow, fast)]
    assert written(programs[0], folder / "slow") == written(programs[1], folder / "fast")


def test_steps_that_can_not_be() -> None:
    stream = KernelStream(Program(), 2, RINGS[0])
    with pytest.raises(ValueError, match="every size must be at least 1"):
        stream.play("0.", (Gemm("gemm", 0, 1, 1),))
    with pytest.raises(ValueError, match="unknown kernel kind"):
        stream.play("0.", (KernelStep("work", "cooking", 1, 1),))
    with pytest.raises(ValueError, match="unknown collective"):
        stream.play("0.", (CollectiveStep("call", "gossip", 1, "tp"),))
    with pytest.raises(KeyError, match="never"):
        stream.play("0.", (Wait("never"),))
