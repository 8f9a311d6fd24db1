"""Whole training steps that JAX compiled, fused as on a GPU, against our generator's."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest
from compared_steps import SETTINGS, content, difference, ours, table, theirs
from conftest import ROOT
from hlo_text import module, parsed, taken

from armillary.errors import InputError
from armillary.workload.xla import text
from armillary.workload.xla.costs import product
from armillary.workload.xla.fusing import fused
from armillary.workload.xla.steps import Work, read

LIMIT = 0.05
ELSEWHERE = {"step_dp1_tp8_pp1", "step_fsdp8_tp1_pp1", "step_fsdp32_tp1_pp1", "step_dp2_tp4_pp4"}
"""Steps of which more is explained by what the guide says: they wait for communication less, or
their pipeline waits for messages."""
ONE_STAGE = [name for name, at in SETTINGS.items() if at["pp"] == 1]


def test_layouts_are_of_every_kind() -> None:
    ranks = {at["pp"] * at["dp"] * at["tp"] for at in SETTINGS.values()}
    assert min(ranks) == 8
    assert max(ranks) == 64
    assert any(at["zero"] for at in SETTINGS.values())
    assert len(SETTINGS) - len(ELSEWHERE) >= 6


@pytest.mark.parametrize("name", SETTINGS)
def test_steps_take_as_long_as_ours(name: str) -> None:
    found = difference(name)
    assert abs(found.kernels) < LIMIT
    assert abs(found.kernels + found.communication - found.whole) < 1e-9
    if name in ELSEWHERE:
        assert abs(found.rest) < 0.07
        assert abs(found.whole) > LIMIT
    else:
        assert abs(found.whole) < LIMIT


@pytest.mark.parametrize("name", ONE_STAGE)
def test_products_are_ours_one_by_one(name: str, tmp_path: Path) -> None:
    ours(name).write(tmp_path / "ours")
    program = (tmp_path / "ours/program.0.et").read_bytes()
    wanted = Counter(
        (batch, *sorted((m, n)), k, width)
        for batch, m, n, k, width in (
            map(int, said.split(b",")) for said in re.findall(rb"gemm\(([\d,]*)\)", program)
        )
    )
    found: Counter[tuple[int, ...]] = Counter()
    for computation in text.read(content(name).decode()).computations:
        for each in computation.instructions:
            if each.opcode == "dot":
                made = product(each, computation.operands(each))
                assert made is not None
                found[made.batch, *sorted((made.m, made.n)), made.k, made.width] += 1
    assert found == wanted


@pytest.mark.parametrize("name", ONE_STAGE)
def test_collectives_are_ours(name: str) -> None:
    """Bytes by kind and group. FSDP's embedding and gains of norms are not gathered again: the
    gradient of the one does not need it, and JAX keeps the others."""
    at = SETTINGS[name]
    summaries = [ours(name).summary, theirs(name).workload.summary]
    wanted, found = (
        sorted((each.kind, each.bytes) for each in summary.classes[0].volumes)
        for summary in summaries
        if summary is not None
    )
    if at["zero"]:
        rows = at["vocabulary"] + 2 * at["layers"] + 1
        spared = 2 * rows * at["hidden"] // at["dp"]
        wanted = [(kind, size - spared * (kind == "all_gather")) for kind, size in wanted]
    assert found == wanted


@pytest.mark.parametrize("name", [each for each in SETTINGS if each not in ONE_STAGE])
def test_messages_are_ours(name: str) -> None:
    """A round more than batches for each stage but one: its messages stay where they are."""
    at = SETTINGS[name]
    summaries = [ours(name).summary, theirs(name).workload.summary]
    wanted, found = (
        {each.bytes for each in summary.classes[0].volumes if each.kind == "send"}
        for summary in summaries
        if summary is not None
    )
    rounds = at["batches"] + at["pp"] - 2
    assert {size * rounds // at["batches"] for size in wanted} == found


def test_the_guide_has_the_table() -> None:
    guide = (ROOT / "docs/guides/xla.md").read_text("utf-8")
    assert "\n".join(table()) in guide


def chains(lines: str) -> list[Work]:
    """Kernels of a module that is fused."""
    made = parsed(module(lines))
    assert made.entry is not None
    steps = fused(read(made, made.entry, {}, flows=True), 2**30).steps
    return [each for each in steps if isinstance(each, Work)]


def test_a_chain_reads_and_writes_once() -> None:
    """A norm: 4,096 bytes in, the same out; a root of rows stays inside."""
    [kernel] = chains(
        """%p = f32[8,128] parameter(0)
        %z = f32[] constant(0)
        %s = f32[8,128] multiply(%p, %p)
        %r = f32[8] reduce(%s, %z), dimensions={1}, to_apply=%add
        %q = f32[8] rsqrt(%r)
        %b = f32[8,128] broadcast(%q), dimensions={0}
        %y = f32[8,128] multiply(%p, %b)"""
    )
    assert kernel.cost.bytes == 2 * 8 * 128 * 4
    assert kernel.kernel == "normalization"


def test_what_is_summed_over_columns_is_read_again() -> None:
    kernels = chains(
        """%p = f32[8,128] parameter(0)
        %z = f32[] constant(0)
        %s = f32[8,128] exponential(%p)
        %c = f32[128] reduce(%s, %z), dimensions={0}, to_apply=%add
        %t = (f32[8,128], f32[128]) tuple(%s, %c)"""
    )
    assert [each.cost.bytes for each in kernels] == [2 * 4096, 4096 + 512]


def test_a_product_adds_to_a_matrix_and_reads_transposed_ones() -> None:
    kernels = chains(
        """%p = f32[64,64] parameter(0)
        %w = f32[64,64] transpose(%p), dimensions={1,0}
        %d = f32[64,64] dot(%w, %p), lhs_contracting_dims={1}, rhs_contracting_dims={0}
        %a = f32[64,64] add(%d, %p)"""
    )
    assert [each.kernel for each in kernels] == ["gemm"]


@pytest.mark.parametrize("size", [-1.0, 2e6, float("nan")])
def test_sizes_of_collectives_are_checked(size: float) -> None:
    with pytest.raises(InputError, match="--combine-mb"):
        taken(
            module("%p = f32[8] parameter(0)\n%a = f32[8] add(%p, %p)"), fuse=True, combine_mb=size
        )
    with pytest.raises(InputError, match="--combine-mb"):
        taken(module("%p = f32[8] parameter(0)\n%a = f32[8] add(%p, %p)"), combine_mb=30.0)
