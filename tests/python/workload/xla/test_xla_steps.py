"""Whole training steps that JAX compiled, fused as on a GPU, against our generator's."""

from __future__ import annotations

from collections import Counter

import pytest
from compared_steps import SETTINGS, content, difference, ours, table, theirs
from conftest import ROOT
from hlo_text import module, parsed, taken

from armillary.errors import InputError
from armillary.workload import Workload
from armillary.workload.xla.fusing import fused
from armillary.workload.xla.steps import Work, read

LIMIT = 0.05
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all")
ONE_STAGE = [name for name, at in SETTINGS.items() if at["pp"] == 1]
PIPELINES = [name for name in SETTINGS if name not in ONE_STAGE]


def test_layouts_are_of_every_kind() -> None:
    ranks = {at["pp"] * at["dp"] * at["tp"] for at in SETTINGS.values()}
    assert min(ranks) == 8
    assert max(ranks) == 64
    assert any(at["zero"] for at in SETTINGS.values())
    assert any("experts" in at for at in SETTINGS.values())
    assert PIPELINES


@pytest.mark.parametrize("name", SETTINGS)
def test_steps_take_as_long_as_ours(name: str) -> None:
    found = difference(name)
    assert abs(found.whole) < LIMIT
    assert abs(found.kernels + found.communication - found.whole) < 1e-9


def shapes(name: str) -> Counter[tuple[int, ...]]:
    """Products of the last stage of our step: batch, smaller and larger side, depth, width."""
    rows = ours(name).amounts()
    last = max(row[0] for row in rows)
    found: Counter[tuple[int, ...]] = Counter()
    for program, _, kind, numbers, count in rows:
        if program == last and kind in ("gemm", "grouped"):
            batch, m, n, k, width = numbers
            found[batch, *sorted((m, n)), k, width] += count
    return found


def compiled(name: str) -> Counter[tuple[int, ...]]:
    """Products of the module."""
    made = parsed(content(name).decode())
    assert made.entry is not None
    found: Counter[tuple[int, ...]] = Counter()
    for step in read(made, made.entry, {}).steps:
        if isinstance(step, Work) and step.product is not None:
            one = step.product
            found[one.batch, *sorted((one.m, one.n)), one.k, one.width] += 1
    return found


@pytest.mark.parametrize("name", ONE_STAGE)
def test_products_are_ours_one_by_one(name: str) -> None:
    assert compiled(name) == shapes(name)


@pytest.mark.parametrize("name", PIPELINES)
def test_products_of_rounds_are_ours(name: str) -> None:
    """All stages of the module do the same: the head for each micro-batch, and their layers in as
    many rounds more as there are stages before the last one."""
    at = SETTINGS[name]
    words, rounds = at["vocabulary"] // at["tp"], at["batches"] + at["pp"] - 1
    wanted = {
        shape: count if words in shape else count * rounds // at["batches"]
        for shape, count in shapes(name).items()
    }
    assert compiled(name) == wanted


def collectives(made: Workload) -> Counter[tuple[str, int, int, int]]:
    """Kind, bytes, ranks of the group and distance of its neighbors, of the first program."""
    found: Counter[tuple[str, int, int, int]] = Counter()
    for program, _, kind, (size, *members), count in made.amounts():
        if program == 0 and kind in KINDS:
            found[kind, size, len(members), members[1] - members[0]] += count
    return found


@pytest.mark.parametrize("name", ONE_STAGE)
def test_collectives_are_ours_one_by_one(name: str) -> None:
    """The module reduces the largest logit of the loss by itself, and then both sums."""
    at = SETTINGS[name]
    found, wanted = collectives(theirs(name).workload), collectives(ours(name))
    if at["tp"] > 1:
        tokens = 4 * at["micro_batch"] * at["sequence"]
        [loss] = [each for each in wanted if each[1] == 3 * tokens]
        del wanted[loss]
        wanted += Counter((loss[0], size, *loss[2:]) for size in (tokens, 2 * tokens))
    assert found == wanted


@pytest.mark.parametrize("name", PIPELINES)
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
