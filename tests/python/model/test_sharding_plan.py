"""Sharding plans: files that people read, located errors, and the same step as in memory."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from conftest import Armillary
from hypothesis import given
from hypothesis import strategies as st

import armillary as arm
from armillary.errors import InputError
from armillary.model.dlrm import EmbeddingTable, parse
from armillary.model.files import load_model
from armillary.model.sharding import ShardingRequest, loads_of, place
from armillary.model.sharding_plan import SHARD_SCHEMES, ShardingPlan, TablePlan
from armillary.model.sharding_plan_file import as_json, as_yaml, read_plan, write_plan
from armillary.workload.dlrm import sharding_plan

HEAD = "version: 1\nmodel: m\nranks: 4\nranks_per_node: 2\ntables:\n"
TABLE = "- {name: t, rows: 10, columns: 8, scheme: row, ranks: 0-3}\n"


def tables() -> st.SearchStrategy[tuple[TablePlan, ...]]:
    """Tables of every scheme on 8 ranks, some cut unevenly."""
    ranks = {
        "table": st.lists(st.integers(0, 7), min_size=1, max_size=1),
        "column": st.lists(st.integers(0, 7), min_size=1, max_size=8),
        "row": st.permutations(range(8)),
        "table_row": st.sampled_from([range(4), range(4, 8)]),
        "data": st.just(range(8)),
    }

    def made(scheme: str, index: int) -> st.SearchStrategy[TablePlan]:
        found = st.builds(
            TablePlan,
            name=st.sampled_from(["t", "a b", "true", "5", 'quo"te', "ü: {x}"]).map(
                lambda name: f"{name}{index}" if name != "5" else f"5{index}"
            ),
            rows=st.integers(16, 10**9),
            columns=st.sampled_from([16, 96]),
            scheme=st.just(scheme),
            ranks=ranks[scheme].map(tuple),
            tier=st.sampled_from(["device", "host", "disk"]),
        )
        if scheme not in ("column", "row", "table_row"):
            return found
        return found.map(lambda table: replace(table, sizes=uneven(table)))

    schemes = st.lists(st.sampled_from(SHARD_SCHEMES), min_size=1, max_size=5)
    return schemes.flatmap(
        lambda names: st.tuples(*(made(name, index) for index, name in enumerate(names)))
    )


def uneven(table: TablePlan) -> tuple[int, ...] | None:
    """The last shard takes all that the others, of one each, leave; nothing for a single one."""
    ways = len(table.ranks)
    return (*[1] * (ways - 1), table.extent - ways + 1) if ways > 1 else None


@given(tables(), st.sampled_from(["yml", "json"]))
def test_a_plan_survives_its_file(
    tmp_path_factory: pytest.TempPathFactory, planned: tuple[TablePlan, ...], form: str
) -> None:
    plan = ShardingPlan("some model", 8, 4, planned)
    path = tmp_path_factory.mktemp("plan") / f"plan.{form}"
    write_plan(plan, path)
    assert read_plan(path) == plan


@given(tables())
def test_shards_tile_their_table(planned: tuple[TablePlan, ...]) -> None:
    """Every element once; of copies once on every rank."""
    for table in planned:
        area = sum(len(shard.rows) * len(shard.columns) for shard in table.shards)
        copies = len(table.ranks) if table.scheme == "data" else 1
        assert area == copies * table.rows * table.columns
        for one, other in product(table.shards, repeat=2):
            if one is not other and one != other and copies == 1:
                rows = range(max(one.rows[0], other.rows[0]), min(one.rows[-1], other.rows[-1]) + 1)
                width = range(
                    max(one.columns[0], other.columns[0]),
                    min(one.columns[-1], other.columns[-1]) + 1,
                )
                assert not (rows and width)


def test_each_table_is_one_line_that_a_person_can_read() -> None:
    halves = TablePlan("t1", 39060, 128, "column", (3, 7), (96, 32))
    everywhere = TablePlan("t0", 40_000_000, 128, "row", tuple(range(16)), tier="host")
    text = as_yaml(ShardingPlan("dlrm-mlperf", 16, 8, (everywhere, halves)))
    assert text.splitlines()[1:] == [
        "version: 1",
        "model: dlrm-mlperf",
        "ranks: 16",
        "ranks_per_node: 8",
        "tables:",
        "- {name: t0, rows: 40000000, columns: 128, scheme: row, ranks: 0-15, tier: host}",
        "- {name: t1, rows: 39060, columns: 128, scheme: column, ranks: 3 7, sizes: 96 32}",
    ]
    listed = json.loads(as_json(ShardingPlan("dlrm-mlperf", 16, 8, (halves,))))["tables"]
    assert listed == [
        {
            "name": "t1",
            "rows": 39060,
            "columns": 128,
            "scheme": "column",
            "ranks": "3 7",
            "sizes": "96 32",
        }
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "[] is not a mapping (allowed: keys: version, model, ranks"),
        (HEAD.replace("1", "2", 1) + TABLE, "line 1: version: unknown version 2 (allowed: 1)"),
        (HEAD + TABLE.replace("row,", "rows,"), "unknown scheme 'rows' (allowed: table, column"),
        (HEAD + TABLE.replace("0-3", "0-4"), "line 6: tables[0].ranks: rank 4 does not exist"),
        (HEAD + TABLE.replace("0-3", "3-0"), "3-0 runs backwards"),
        (HEAD + TABLE.replace("0-3", "0-x"), "invalid ranks: '0-x' (allowed: ranks such as 5, 0-7"),
        (HEAD + TABLE.replace("0-3", "{}"), "line 6: tables[0].ranks: invalid ranks: {} (allowed:"),
        (
            HEAD + TABLE.replace("0-3", "[]"),
            "line 6: tables[0].ranks: an empty list (allowed: ranks",
        ),
        (HEAD + TABLE.replace("0-3", "[0, x]"), "tables[0].ranks[1]: invalid ranks: 'x' (allowed:"),
        (HEAD + TABLE.replace("0-3", "[0, -1]"), "tables[0].ranks[1]: invalid ranks: -1 (allowed:"),
        (HEAD + TABLE.replace("0-3", "[0, 1.5]"), "tables[0].ranks[1]: invalid ranks: 1.5"),
        (HEAD + TABLE.replace("0-3", "[[0], 1]"), "tables[0].ranks[0]: invalid ranks: [0]"),
        (HEAD + TABLE.replace("0-3", "[0, 4]"), "tables[0].ranks: rank 4 does not exist"),
        (HEAD + TABLE.replace("0-3", "[0, 0]"), "a rank is given twice"),
        (HEAD + TABLE.replace("0-3", "0-3, sizes: [4, 6x]"), "invalid sizes: [4, '6x']"),
        (HEAD + TABLE.replace("0-3", "0 0"), "a rank is given twice"),
        (HEAD + TABLE.replace("row,", "table,"), "a whole table on 4 ranks (allowed: one rank)"),
        (HEAD + TABLE.replace("0-3", "0-3, sizes: 4 4 4"), "3 sizes for 4 ranks"),
        (HEAD + TABLE.replace("0-3", "0-3, sizes: 4 4 4 4"), "16 rows in all, the table has 10"),
        (HEAD + TABLE.replace("0-3", "0-3, tier: hbm"), "unknown tier 'hbm' (allowed: device"),
        (HEAD + TABLE.replace("rows: 10", "rows: 0"), "invalid count: 0"),
        (HEAD + TABLE.replace("rows: 10", "rows: 3"), "4 shards of 3 rows (allowed: up to 3"),
        (HEAD + TABLE.replace("rows: 10", "row: 10"), "row: unknown key (allowed: rows"),
        (HEAD + TABLE * 2, "tables[1].name: 't' is also the name of tables[0]"),
        (HEAD + "- 5\n", "tables[0]: 5 is not a mapping (allowed: keys: name, rows"),
        ("version: 1\nversion: 1\n", "version: is given twice"),
    ],
)
def test_errors_say_where_and_what_is_allowed(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "plan.yml"
    path.write_text(text)
    with pytest.raises(InputError) as refused:
        read_plan(path)
    assert said in str(refused.value)
    assert "plan.yml" in str(refused.value)


def test_ranks_and_sizes_may_be_lists(tmp_path: Path) -> None:
    path = tmp_path / "plan.yml"
    path.write_text(HEAD + TABLE.replace("0-3", '[3, "0-1", 2], sizes: [4, 3, 2, 1]'))
    (table,) = read_plan(path).tables
    assert (table.ranks, table.sizes) == ((3, 0, 1, 2), (4, 3, 2, 1))


def test_all_problems_come_at_once(tmp_path: Path) -> None:
    path = tmp_path / "plan.yml"
    path.write_text(HEAD + TABLE.replace("row,", "rows,") + TABLE.replace("10", "x") + "- 5\n")
    with pytest.raises(InputError) as refused:
        read_plan(path)
    assert len(refused.value.problems) == 3


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("dlrm-mlperf", {"dp": 16}),
        ("dlrm-neo-a", {"dp": 128, "sharding": "auto"}),
        ("dlrm-neo-f", {"dp": 16, "sharding": "row"}),
        ("dlrm-neo-i", {"dp": 16, "sharding": "table_row", "ranks_per_node": 8}),
        ("dlrm-hoti", {"dp": 16, "sharding": "column", "column_shards": 4}),
        ("dlrm-hoti", {"dp": 9, "sharding": "table", "bottom": "first"}),
    ],
)
def test_a_planned_step_takes_as_long_as_one_sharded_in_memory(
    tmp_path: Path, model: str, options: dict[str, int | str]
) -> None:
    path = tmp_path / "plan.yml"
    write_plan(sharding_plan(model, **options), path)
    kept = {key: options[key] for key in options if key in ("dp", "bottom", "ranks_per_node")}
    ours, planned = (
        arm.workload.build(model, **some) for some in (options, {**kept, "plan": str(path)})
    )
    assert planned.summary == ours.summary
    platform = arm.Platform(f"SW({options['dp']})", bandwidth="50 GB/s", latency="1 us")
    assert arm.simulate(planned, platform).step_time_ns == arm.simulate(ours, platform).step_time_ns


def test_the_order_of_tables_in_a_plan_does_not_matter(tmp_path: Path) -> None:
    plan = sharding_plan("dlrm-mlperf", dp=16)
    path = tmp_path / "plan.yml"
    turned = replace(plan, tables=plan.tables[::-1])
    write_plan(turned, path)
    ours, planned, made = (
        arm.workload.build("dlrm-mlperf", dp=16, **some)
        for some in ({}, {"plan": str(path)}, {"plan": turned})
    )
    assert made.summary == planned.summary == ours.summary


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rows": 7}, r"is 7 x 4 in the sharding plan \(allowed: 50 x 4"),
        ({"name": "other"}, "table 'other': is in the sharding plan, but not in the model"),
        ({"tier": "disk"}, "cache: is missing: tables are in the host's memory or on disk"),
        ({"tier": "host"}, "cache: is missing: tables are in the host's memory or on disk"),
        ({"ranks": (0, 1)}, r"row on 2 of 4 ranks can't be simulated \(allowed: 0-3\)"),
        ({"sizes": (20, 10, 10, 10)}, "uneven rows can't be simulated"),
        ({"scheme": "table_row", "ranks": (1, 2)}, "not those of one node"),
    ],
)
def test_a_plan_must_fit_its_model(tmp_path: Path, change: dict[str, object], said: str) -> None:
    fields = {
        "family": "dlrm",
        "dense_features": 4,
        "bottom": [4],
        "interaction": {"kind": "dot"},
        "top": [1],
        "tables": [{"name": "a", "rows": 50, "dim": 4}],
    }
    (tmp_path / "m.yml").write_text(json.dumps(fields))
    planned = replace(TablePlan("a", 50, 4, "row", (0, 1, 2, 3)), **change)  # type: ignore[arg-type]
    plan = ShardingPlan("m", 4, 2, (planned,))
    write_plan(plan, tmp_path / "plan.yml")
    for given_plan in (str(tmp_path / "plan.yml"), plan):
        with pytest.raises(InputError, match=said):
            arm.workload.build(tmp_path / "m.yml", dp=4, plan=given_plan)


def test_a_plan_made_in_memory_is_held_to_what_files_may_say() -> None:
    plan = sharding_plan("dlrm-mlperf", dp=16)
    first = replace(plan.tables[0], scheme="table", ranks=(99,), sizes=None)
    with pytest.raises(InputError, match="99"):
        arm.workload.build(
            "dlrm-mlperf", dp=16, plan=replace(plan, tables=(first, *plan.tables[1:]))
        )


def test_uneven_columns_ask_more_of_some_npus() -> None:
    table = EmbeddingTable("t", 100, 64, 5)
    plan = ShardingPlan("m", 2, 2, (TablePlan("t", 100, 64, "column", (0, 1), (48, 16)),))
    found = loads_of(plan, [table])
    assert [(load.dims, load.elements, load.parameters) for load in found.whole] == [
        (48, 5 * 48, 4800),
        (16, 5 * 16, 1600),
    ]


def test_a_thousand_tables_keep_their_identity() -> None:
    """Model A of Neo has 1,000 tables; every one of them is in the plan of 256 ranks."""
    model = parse(load_model("dlrm-neo-a"))
    request = ShardingRequest("auto", 256, 512, 8, None, 4, 4, 4, 4, "rowwise_adagrad", None)
    plan = place(model.tables, request, model.name).plan
    assert [each.name for each in plan.tables] == [table.name for table in model.tables]
    for table, planned in zip(model.tables, plan.tables, strict=True):
        covered = sum(len(shard.rows) * len(shard.columns) for shard in planned.shards)
        assert covered == table.rows * table.dim * (256 if planned.scheme == "data" else 1)


def test_the_command_line_writes_and_reads_plans(armillary: Armillary, tmp_path: Path) -> None:
    path = tmp_path / "plan.yml"
    given = ("workload", "dlrm-mlperf", "--dp", "16", "--json", "-")
    first = armillary(*given, "--write-plan", str(path))
    assert first.returncode == 0, first.stderr
    assert f"sharding plan written to {path}" in first.stderr
    assert armillary(*given, "--plan", str(path)).stdout == first.stdout
    wrong = armillary("workload", "llama-3-8b", "--write-plan", str(path))
    assert wrong.returncode == 2
    assert "llama-3-8b is a transformer and has no embedding tables" in wrong.stderr
