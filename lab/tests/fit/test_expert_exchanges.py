"""Dispatch and combine of experts: the shipped parameters on shipped measurements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from armillary.kernels import Combine, Dispatch, one
from armillary.kernels.tables import (
    COMBINE_LL,
    COMBINE_NORMAL,
    DISPATCH_LL,
    DISPATCH_NORMAL,
    TRTLLM_EXCHANGE,
    Measured,
    Table,
)
from armillary.platform import Platform
from armillary_lab.fit.kernels import unseen
from armillary_lab.fit.kernels.search import Problem
from armillary_lab.measured.kernels import congested, shipped
from armillary_lab.predict.measured_kernels import Predicted, predict

CALL = Dispatch(tokens=128, hidden=7168, experts=256, top_k=8, ep=8)


@pytest.mark.parametrize(
    ("table", "rows", "median", "ninth"),
    [
        (DISPATCH_LL, 610, 0.06, 0.16),
        (COMBINE_LL, 610, 0.06, 0.22),
        (DISPATCH_NORMAL, 7889, 0.06, 0.15),
        (COMBINE_NORMAL, 7889, 0.08, 0.18),
        (TRTLLM_EXCHANGE, 2096, 0.05, 0.14),
    ],
    ids=lambda each: each.name if isinstance(each, Table) else "",
)
def test_shipped_parameters_reach_the_stated_errors(
    table: Table, rows: int, median: float, ninth: float
) -> None:
    kept = [row for row in shipped(table) if not congested(row)]
    assert len(kept) == rows
    found = [each for each in predict(kept) if isinstance(each, Predicted)]
    assert len(found) == rows
    errors = np.quantile(np.expm1(np.abs([each.log for each in found])), [0.5, 0.9])
    assert errors[0] < median and errors[1] < ninth, errors


def test_only_the_paths_of_eight_nodes_slow_normal_kernels() -> None:
    """GB/s over the network of 50 that large calls get: normal kernels on 4 nodes, on 8, and
    low-latency kernels on 8. The last says that the cards of these nodes are not slow."""

    def rate(table: Table, ep: int, copies: float) -> float:
        rows = [(row.shape, row.us) for row in shipped(table) if isinstance(row.shape, Dispatch)]
        mine = [(shape, us) for shape, us in rows if shape.ep == ep]
        shape, us = max(mine, key=lambda row: (row[0].tokens, row[0].sms))
        return shape.tokens * copies * 7168 * 33 / 32 / us / 1e3

    visits = 4 * (1 - (3 / 4) ** 8)
    assert 45 < rate(DISPATCH_NORMAL, 32, visits * 3 / 4) < 50
    assert rate(DISPATCH_NORMAL, 64, visits * 7 / 8) < 17
    assert 40 < rate(DISPATCH_LL, 64, 8 * 7 / 8) < 50


@pytest.mark.parametrize(
    ("kind", "published"),
    [
        (Dispatch, (77, 118, 155, 173, 192, 194)),
        (Combine, (114, 195, 273, 314, 369, 360)),
    ],
)
def test_published_times_of_deepep_on_other_machines(
    kind: type[Dispatch | Combine], published: tuple[int, ...]
) -> None:
    """DeepEP, docs/legacy.md: low-latency kernels on H800, 128 tokens, 8 to 256 ranks."""
    platform = Platform.load("h800-256n")
    for at, us in enumerate(published):
        shape = kind(tokens=128, hidden=7168, experts=256, top_k=8, ep=8 << at)
        assert 1 / 1.25 < one(shape, platform).seconds * 1e6 / us < 1.25, (shape, us)


def test_a_layer_is_left_out_with_all_its_calls() -> None:
    rows = [
        Measured("x", system, "x", replace(CALL, tokens=tokens, ep=ep, sms=sms), 1.0)
        for system, tokens, ep, sms in (("h100", 1, 8, 4), ("b200", 77, 16, 24), ("h100", 9, 4, 8))
    ]
    assert len({unseen.part_of(row) for row in rows}) == 1


def test_what_no_row_depends_on_stays() -> None:
    rows = [row for row in shipped(DISPATCH_LL) if row.shape == CALL]
    keys = [f"dispatch.deepep_ll.{name}" for name in ("launch", "link", "network", "nic")]
    start = dict(zip(keys, (6.0, 0.7, 8.0, 0.9), strict=True))
    assert Problem(rows, keys).moving(start) == keys[:2]


def test_numbers_of_ranks_are_left_out_in_turn() -> None:
    rows = [
        Measured("x", "h100", "x", replace(CALL, tokens=tokens, ep=ep), 10.0 + ep)
        for tokens in (1, 100)
        for ep in (4, 8)
    ]
    start = {"dispatch.deepep_ll.launch": 6.0, "dispatch.deepep_normal.launch": 25.0}
    found = list(unseen.ranks(rows, list(start), start))
    assert sorted(row.us for row, _ in found) == sorted(row.us for row in rows)
