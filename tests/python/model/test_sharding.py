"""Sharing tables out: nothing is lost, nothing is doubled, and what costs most is spread best."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from armillary.errors import InputError
from armillary.model.dlrm import EmbeddingTable
from armillary.model.sharding import ShardingRequest, ShardLoads, TableLoad, place

REQUEST = ShardingRequest("table", 4, 32, 2, None, 4, 4, 4, 4, "rowwise_adagrad", None)

tables = st.lists(
    st.builds(
        EmbeddingTable,
        name=st.just("t"),
        rows=st.integers(8, 10**6),
        dim=st.sampled_from([4, 16, 64, 96]),
        pooling=st.integers(1, 40),
    ),
    min_size=1,
    max_size=30,
)
schemes = st.sampled_from(["table", "column", "row", "table_row", "data", "auto"])


def total(placement: ShardLoads) -> TableLoad:
    parts = [*placement.whole, placement.row, *placement.node, placement.data]
    return sum(parts, TableLoad())


@given(tables, schemes, st.sampled_from([2, 4, 8]))
def test_every_element_is_somewhere_once(
    given_tables: list[EmbeddingTable], scheme: str, npus: int
) -> None:
    found = total(place(given_tables, replace(REQUEST, scheme=scheme, npus=npus)))
    assert found.parameters == sum(table.rows * table.dim for table in given_tables)
    assert found.dims == sum(table.dim for table in given_tables)
    assert found.elements == sum(table.pooling * table.dim for table in given_tables)


@given(tables, st.sampled_from([2, 4, 8]))
def test_greedy_bound(given_tables: list[EmbeddingTable], npus: int) -> None:
    """To the least loaded: at most the mean and what one shard can bring on top of it (Graham,
    1966)."""
    placement = place(given_tables, replace(REQUEST, npus=npus))
    cost = [load.elements + load.dims for load in placement.whole]
    largest = max((table.pooling + 1) * table.dim for table in given_tables)
    assert max(cost) <= sum(cost) / npus + (1 - 1 / npus) * largest + 1e-6


def test_auto_splits_what_is_too_costly_and_leaves_the_rest_whole() -> None:
    """Nine times the cost of the others on 4 NPUs is more than a mean share: two column shards are
    not."""
    wide = EmbeddingTable("wide", 10**6, 64, 8)
    rest = [EmbeddingTable(f"t{index}", 10**6, 16, 3) for index in range(16)]
    placement = place([wide, *rest], replace(REQUEST, scheme="auto"))
    assert placement.schemes == (("table", 16), ("column", 1))
    assert placement.indices == 2 * 8 + 16 * 3


def test_auto_rows_what_fits_nowhere() -> None:
    huge = EmbeddingTable("huge", 10**6, 16, 2)
    rest = [EmbeddingTable(f"t{index}", 10**4, 16, 2) for index in range(8)]
    request = replace(REQUEST, scheme="auto", capacity=20_000_000)
    assert place([huge, *rest], request).schemes == (("table", 8), ("row", 1))
    with pytest.raises(InputError, match="more than 20000000"):
        place([huge, *rest], replace(request, scheme="table"))
