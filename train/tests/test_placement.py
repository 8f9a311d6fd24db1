"""One placement, two views: the loads that the simulator counts, and the streams that the trainer
looks up, for plans of any schemes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from armillary.model.dlrm import EmbeddingTable
from armillary.model.sharding import TableLoad, loads_of
from armillary.model.sharding_plan import PLACES, ShardingPlan, TablePlan, ranks_at
from armillary_train.ranks.sharding import Streams
from armillary_train.tables.table import Feature, Table

RANKS, EACH = 4, 2

TABLE = st.tuples(
    st.sampled_from(tuple(PLACES)),
    st.integers(RANKS, 40),
    st.sampled_from([4, 16, 48]),
    st.lists(st.integers(0, RANKS - 1), min_size=1, max_size=3),
    st.integers(1, 9),
)


@given(st.lists(TABLE, min_size=1, max_size=6))
def test_what_a_rank_looks_up_is_its_load(
    drawn: list[tuple[str, int, int, list[int], int]],
) -> None:
    planned, tables, ours = [], [], []
    for at, (scheme, rows, dim, there, pooling) in enumerate(drawn):
        places = {"table": there[:1], "column": there, "table_row": [there[0] // EACH]}
        ranks = ranks_at(scheme, places.get(scheme, []), RANKS, EACH)  # type: ignore[arg-type]
        planned.append(TablePlan(f"t{at}", rows, dim, scheme, ranks))  # type: ignore[arg-type]
        tables.append(EmbeddingTable(f"t{at}", rows, dim, pooling))
        ours.append(Table(f"t{at}", rows, dim))
    plan = ShardingPlan("drawn", RANKS, EACH, tuple(planned))
    loads = loads_of(plan, tables)
    features = [Feature(table.name, table.name) for table in tables]
    streams = Streams.of(plan, ours, features, RANKS)
    for rank in range(RANKS):
        whole = TableLoad()
        for stream in streams.direct(rank):
            shard = streams.shard(stream)
            if planned[stream.feature].scheme == "row":
                continue
            width, pooling = len(shard.columns), tables[stream.feature].pooling
            rows = len(shard.rows)
            whole += TableLoad(pooling, pooling * width, width, rows * width, rows, 1)
        assert loads.whole[rank] == whole
        kept = sum(
            len(streams.shard(each).rows) * len(streams.shard(each).columns)
            for each in streams.streams(rank)
        )
        copies = sum(tables[each].rows * tables[each].dim for each in streams.data)
        assert copies == loads.data.parameters
        # The simulator counts the mean share of rows that do not divide evenly.
        bytes_, _ = loads.memory(rank, 1, "sgd")
        uneven = sum(
            each.dim for each, cut in zip(tables, planned, strict=True) if _cut(cut.scheme)
        )
        assert abs(bytes_ - copies - kept) <= uneven
    widths = [sum(len(each.columns) for each in streams.direct(rank)) for rank in range(RANKS)]
    assert streams.widths[:RANKS] == widths
    assert [load.dims for load in loads.node or [TableLoad()] * 2] == [
        streams.node_width(node) for node in range(streams.nodes)
    ]


def _cut(scheme: str) -> bool:
    return scheme in ("row", "table_row")
