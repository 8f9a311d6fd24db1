"""Sharded tables on 1, 2 and 4 processes against one process, and faults on all ranks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from command_copies import Copies
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ranks import Ranks, ranks
from thorough import some, usually

pytest.importorskip("torch")

SIZE = 4
CLOSE = 1e-6
"""Relative error where sums are made in another order."""
ORDERED = ("table", "column", "data")
"""Schemes that keep the order of sums."""
RULES = [
    "sgd",
    "adagrad",
    "row_wise_adagrad",
    "adam",
    "lamb",
    "clipped_sgd",
    "clipped_adagrad",
    "clipped_lamb",
]
OF_ROWS = ("row_wise_adagrad", "lamb", "clipped_sgd", "clipped_adagrad", "clipped_lamb")
"""Rules that need sums over whole rows, which are made of those of shards."""

Spec = dict[str, Any]


@pytest.fixture(scope="module")
def group(trainings: Copies) -> Iterator[Ranks]:
    with ranks(trainings, SIZE) as found:
        yield found


@st.composite
def specs(draw: st.DrawFn, size: int) -> Spec:
    """Any mix of tables and features on `size` ranks."""
    each = draw(st.sampled_from([ways for ways in (1, 2, 4) if size % ways == 0]))
    optimizer = draw(st.sampled_from(RULES))
    everywhere = range(size)
    tables = []
    unpooled = draw(st.integers(0, 3)) == 0
    width = draw(st.integers(size, 40)) if unpooled else None
    for index in range(draw(st.integers(1, 4))):
        scheme = draw(st.sampled_from(["table", "column", "row", "table_row", "data"]))
        rows, columns = draw(st.integers(size, 60)), width or draw(st.integers(size, 40))
        sizes = None
        if scheme == "table":
            held = [draw(st.sampled_from(everywhere))]
        elif scheme == "data":
            held = list(everywhere)
        elif scheme == "table_row":
            node = draw(st.integers(0, size // each - 1))
            held = draw(st.permutations(range(node * each, (node + 1) * each)))
        elif scheme == "column":
            held = draw(st.lists(st.sampled_from(everywhere), min_size=1, max_size=size))
        else:
            held = draw(st.lists(st.sampled_from(everywhere), min_size=1, unique=True))
        if scheme in ("column", "row", "table_row") and draw(st.booleans()):
            extent = columns if scheme == "column" else rows
            places = st.lists(
                st.integers(1, extent - 1),
                min_size=len(held) - 1,
                max_size=len(held) - 1,
                unique=True,
            )
            ends = [0, *sorted(draw(places)), extent]
            sizes = [stop - start for start, stop in pairwise(ends)]
        tables.append(
            {
                "name": f"t{index}",
                "rows": rows,
                "columns": columns,
                "scheme": scheme,
                "ranks": list(held),
                "sizes": sizes,
            }
        )
    weighted = not unpooled and draw(st.booleans())
    pooling = st.just("sum") if weighted else st.sampled_from(["sum", "mean"])
    pooling = st.just("none") if unpooled else pooling
    names = [each["name"] for each in tables]
    extra = draw(st.lists(st.sampled_from(names), max_size=3))
    lookups = draw(st.permutations([*names, *extra]))
    features = [[f"f{at}", table, draw(pooling)] for at, table in enumerate(lookups)]
    return {
        "tables": tables,
        "features": features,
        "ranks": size,
        "ranks_per_node": each,
        "optimizer": optimizer,
        "weighted": weighted,
        "gradients": weighted and draw(st.booleans()),
        "seed": draw(st.integers(0, 1000)),
    }


def mixed(optimizer: str, size: int = SIZE) -> Spec:
    """A table of every scheme, and a feature more."""
    every = list(range(size))
    tables = [
        {"name": "whole", "rows": 50, "columns": 16, "scheme": "table", "ranks": [size - 1]},
        {"name": "wide", "rows": 40, "columns": 32, "scheme": "column", "ranks": [0, size - 1, 0]},
        {"name": "long", "rows": 61, "columns": 24, "scheme": "row", "ranks": every},
        {"name": "near", "rows": 33, "columns": 8, "scheme": "table_row", "ranks": every[-2:]},
        {"name": "small", "rows": 9, "columns": 8, "scheme": "data", "ranks": every},
    ]
    poolings = ["sum", "sum", "mean", "sum", "mean"]
    features = [
        [f"f{at}", table["name"], pooling]
        for at, (table, pooling) in enumerate(zip(tables, poolings, strict=True))
    ]
    return {
        "tables": tables,
        "features": [*features, ["again", "whole", "mean"], ["more", "long", "sum"]],
        "ranks": size,
        "ranks_per_node": min(2, size),
        "optimizer": optimizer,
        "seed": 7,
    }


def check(answers: list[Any], spec: Spec) -> None:
    """Whether every rank's parts are those of one process."""
    kept = set(ORDERED)
    if spec["optimizer"] in OF_ROWS:
        kept -= {"column"}
    if spec["features"][0][2] == "none":
        # Nothing is added up but gradients, in the order of samples.
        kept |= {"row", "table_row"}
    cut = {each["scheme"] for each in spec["tables"]} - kept
    for rank, rows in enumerate(answers):
        assert not isinstance(rows[0], str), rows
        for table, scheme, equal, error in rows:
            ordered = scheme in kept or (table == "results" and not cut)
            assert equal or not ordered, (rank, table, scheme, error)
            assert error <= CLOSE, (rank, table, scheme, error)


@pytest.mark.parametrize(
    ("optimizer", "size"), some([(rule, size) for rule in RULES for size in (2, 4)], 3)
)
def test_steps_are_those_of_one_process(group: Ranks, optimizer: str, size: int) -> None:
    """Rows of all places are looked up from the ninth step on. Many steps, of one rule, are those
    whose errors could add up."""
    spec = mixed(optimizer, size)
    steps = usually(40, 100) if (optimizer, size) == ("row_wise_adagrad", 2) else 10
    check(group.run("compare", size=size, spec=spec, steps=steps), spec)


PROPERTIES = settings(
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    derandomize=True,
)


@pytest.mark.parametrize(
    ("size", "examples", "steps"),
    usually([(1, 4, 5), (2, 10, 6), (4, 4, 6)], [(1, 20, 5), (2, 60, 6), (4, 20, 6)]),
)
def test_any_mix_is_that_of_one_process(group: Ranks, size: int, examples: int, steps: int) -> None:
    @settings(PROPERTIES, max_examples=examples)
    @given(specs(size))
    def one(spec: Spec) -> None:
        check(group.run("compare", size=size, spec=spec, steps=steps), spec)

    one()


def test_tables_of_16_bits_round_alike(group: Ranks) -> None:
    spec = mixed("adagrad", 2)
    for table in spec["tables"]:
        table["dtype"] = "bfloat16"
    spec["tables"] = [each for each in spec["tables"] if each["scheme"] in ORDERED]
    names = {each["name"] for each in spec["tables"]}
    spec["features"] = [each for each in spec["features"] if each[1] in names]
    check(group.run("compare", size=2, spec=spec, steps=10), spec)


def test_arrays_go_through_sockets_too(group: Ranks) -> None:
    spec = mixed("row_wise_adagrad", 2)
    check(group.run("sockets", size=2, spec=spec, steps=5), spec)


@pytest.mark.parametrize("size", [2, 4])
def test_several_exchanges_are_under_way_at_once(group: Ranks, size: int) -> None:
    assert group.same("swaps", size, spec=mixed("sgd", size))


@pytest.mark.parametrize("size", [1, 2, 4])
def test_numbers_are_sent_from_where_they_were_computed(group: Ranks, size: int) -> None:
    assert group.same("rooms", size, spec=mixed("sgd", size))


@pytest.mark.parametrize(
    ("given", "shares"),
    [
        ({}, True),
        ({"accumulate": 3, "cache": "40 MiB"}, True),
        ({}, False),
        ({"messages": "forward=fp16,backward=int8,reduce-scatter=fp8,all-reduce=int8"}, True),
    ],
    ids=["memory", "caches", "sockets", "formats"],
)
def test_the_pipeline_changes_no_bit(group: Ranks, given: dict[str, Any], shares: bool) -> None:
    """Batches without samples on some ranks, and evaluations between steps. MLPs are the same on
    all ranks, whatever gradients were sent as."""
    with_it, without = (
        group.run("trained", SIZE, steps=4, shares=shares, given={**given, "pipeline": each})
        for each in (True, False)
    )
    assert with_it == without
    assert len({bits for bits, _ in with_it}) == SIZE
    assert len({mlps for _, mlps in with_it}) == 1


def test_repeated_runs_have_the_same_bits(group: Ranks) -> None:
    spec = mixed("row_wise_adagrad")
    first = group.run("digest", size=SIZE, spec=spec, steps=4)
    assert group.run("digest", size=SIZE, spec=spec, steps=4) == first
    assert group.run("digest", size=SIZE, spec=spec | {"seed": 8}, steps=4) != first


@pytest.mark.parametrize("size", [2, SIZE])
def test_numbers_of_fewer_bits_on_the_wire_are_close(group: Ranks, size: int) -> None:
    """Every scheme, with 16 bits, 8 bits everywhere, and in one exchange alone."""
    everywhere = "forward={0},backward={0},reduce-scatter={0}"
    messages = ["forward=fp16,backward=bf16", *map(everywhere.format, ("int8", "fp8"))]
    messages += ["forward=int8", "backward=int8", "reduce-scatter=int8"]
    found = group.run("narrow", size=size, spec=mixed("sgd", size), steps=5, messages=messages)
    for errors in found:
        for text, error in zip(messages, errors, strict=True):
            assert error < (0.1 if "fp8" in text else 0.02), (text, error)
    for at, text in enumerate(messages):
        assert max(errors[at] for errors in found) > 0, text


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("index", 'table "long": feature "more": sample 1: index 1000000 (allowed: 0 to 60)'),
        ("negative index", 'table "whole": feature "f0": sample 1: index -5 (allowed: 0 to 49)'),
        ("length", 'table "long": feature "more": sample 1: length -1'),
        ("sum", "batch: lengths add up to 17, but there are 14 indices"),
        ("type", "batch: lengths of type torch.float32 (allowed: int32, int64)"),
        ("shape", "batch: lengths of the shape [1, 2] (allowed: [7, samples])"),
        ("weights", "a batch with weights, but the rows of this feature are not summed"),
        ("gradient", "gradient: feature 'more': sample 1: nan in the gradient"),
    ],
)
def test_a_fault_on_one_rank_is_an_error_on_all(group: Ranks, kind: str, said: str) -> None:
    answers = group.run("spoiled", size=SIZE, spec=mixed("sgd"), kind=kind, rank=2)
    name = "TrainingError" if kind == "gradient" else "InputError"
    assert {answer[0] for answer in answers} == {name}, answers
    assert len({answer[1] for answer in answers}) == 1
    assert answers[0][1].startswith("rank 2: "), answers[0]
    assert said in answers[0][1]


def test_gradients_that_are_refused_leave_nothing_behind(group: Ranks) -> None:
    assert group.same("refused", size=2, spec=mixed("sgd", 2))


def test_ranks_with_and_without_gradients_of_weights_say_so(group: Ranks) -> None:
    spec = mixed("sgd", 2)
    spec["features"] = [[name, table, "sum"] for name, table, _ in spec["features"]]
    name, text = group.same("spoiled", size=2, spec=spec, kind="gradients of weights", rank=1)
    assert name == "InputError"
    assert "weights: rank 0 has weights; rank 1 has weights with gradients" in text


def test_unequal_numbers_of_batches_are_an_error_on_all(group: Ranks) -> None:
    for name, text in group.run("uneven", size=SIZE, spec=mixed("sgd"), rank=1):
        assert name == "TrainingError"
        assert "rank 0 trains on a batch; rank 1 has no more batches" in text


@pytest.mark.parametrize("ahead", [False, True], ids=["look up", "fetch"])
def test_a_disk_that_fails_last_is_an_error_on_all(
    group: Ranks, ahead: bool, tmp_path: Path
) -> None:
    """No lookup comes behind the one that fails, and not all tables are on a disk."""
    table = {"rows": 2000, "columns": 1024, "scheme": "row", "ranks": [0, 1]}
    tables = [
        {"name": "far", "tier": "disk", **table},
        {"name": "near", "tier": "host", **table},
    ]
    features = [["f0", "far", "sum"], ["f1", "near", "sum"]]
    spec = mixed("row_wise_adagrad", 2) | {"tables": tables, "features": features}
    name, text = group.same("full", size=2, spec=spec, folder=str(tmp_path), rank=1, ahead=ahead)
    assert name == "InputError"
    assert text.startswith("rank 1: ") and "table-0.rows: File too large" in text


def test_ranks_that_do_different_things_say_so(group: Ranks) -> None:
    name, text = group.same("modes", size=2, spec=mixed("sgd", 2))
    assert name == "TrainingError"
    assert "rank 0 evaluates a batch; rank 1 trains on a batch" in text


def test_a_plan_for_other_ranks_or_tables_is_refused(group: Ranks) -> None:
    name, text = group.same("digest", size=2, spec=mixed("sgd", 4), steps=1)
    assert (name, text.splitlines()[0]) == (
        "InputError",
        "ranks: the sharding plan is for 4 ranks; the run has 2"
        " (allowed: 4 ranks, or a plan for 2)",
    )


@pytest.mark.parametrize("optimizer", ["adam", "row_wise_adagrad"])
def test_tables_across_nodes_and_columns_within(group: Ranks, optimizer: str) -> None:
    """A plan for four ranks in two nodes: each table is in one node, cut by columns there."""
    tables = [
        {
            "name": f"t{node}{number}",
            "rows": 40 + number,
            "columns": 24,
            "scheme": "column",
            "ranks": [2 * node, 2 * node + 1],
        }
        for node in (0, 1)
        for number in range(2)
    ]
    features = [[f"f{at}", each["name"], "mean"] for at, each in enumerate(tables)]
    spec = mixed(optimizer) | {"tables": tables, "features": features}
    check(group.run("compare", size=SIZE, spec=spec, steps=10), spec)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_rows_of_lookups_are_those_of_one_process(group: Ranks, size: int) -> None:
    spec = mixed("clipped_lamb", size)
    for table in spec["tables"]:
        table["columns"] = 24
    spec["features"] = [[name, table, "none"] for name, table, _ in spec["features"]]
    check(group.run("compare", size=size, spec=spec, steps=10), spec)


@pytest.mark.parametrize("size", [1, 2, 4])
def test_gradients_of_weights_are_those_of_one_process(group: Ranks, size: int) -> None:
    spec = mixed("row_wise_adagrad", size) | {"weighted": True, "gradients": True}
    spec["features"] = [[name, table, "sum"] for name, table, _ in spec["features"]]
    check(group.run("compare", size=size, spec=spec, steps=10), spec)


@pytest.mark.parametrize("size", [1, 2])
def test_tables_in_distributed_data_parallel(group: Ranks, size: int) -> None:
    """With `mean`, tables take the step of the dense part. With `sum`, theirs is that of a loss
    which is not divided by the number of ranks."""
    for answer in group.run("averaged", size=size, gradient="mean"):
        assert answer == pytest.approx([1.0, 1.0, 1.0], abs=1e-6)
    for answer in group.run("averaged", size=size, gradient="sum"):
        assert answer == pytest.approx([size, size, 1.0], abs=1e-6)


@pytest.mark.parametrize("size", [1, 2])
def test_tensors_that_changed_are_refused_on_all_ranks(group: Ranks, size: int) -> None:
    place = f"rank {size - 1}: " if size > 1 else ""
    for name, text in group.run("changed", size=size, spec=mixed("sgd", size)):
        assert name == "InputError"
        assert text.startswith(f"{place}batch: indices: changed in place")


@pytest.mark.parametrize("optimizer", ["row_wise_adagrad", "adam"])
def test_a_state_loads_on_another_number_of_ranks(
    group: Ranks, optimizer: str, tmp_path: Path
) -> None:
    file = str(tmp_path / "state")
    group.run("save", size=SIZE, spec=mixed(optimizer), steps=6, file=file)
    files = [f"{file}-{rank}" for rank in range(SIZE)]
    spec = mixed(optimizer, 2)
    spec["tables"][0] |= {"scheme": "row", "ranks": [1, 0]}
    spec["tables"][2] |= {"scheme": "column", "ranks": [1, 0]}
    spec["tables"][3] |= {"scheme": "data", "ranks": [1, 0]}
    for rows in group.run("load", size=2, spec=spec, files=files, steps=[6, 9]):
        for table, name, _, error in rows:
            assert error <= CLOSE, (table, name)


def test_a_state_without_a_part_is_refused(group: Ranks, tmp_path: Path) -> None:
    file = str(tmp_path / "state")
    group.run("save", size=SIZE, spec=mixed("sgd"), steps=1, file=file)
    files = [f"{file}-{rank}" for rank in range(SIZE - 1)]
    name, text = group.same("load", size=1, spec=mixed("sgd", 1), files=files, steps=[1, 2])
    assert name == "InputError"
    assert text == "table 'whole': is not in the state"


def test_a_lost_rank_is_an_error_on_the_others(group: Ranks) -> None:
    """The last test: the rank is lost."""
    begin = time.monotonic()
    answers = group.run("leave", size=SIZE, lost=3, spec=mixed("sgd"), rank=3)
    for rank, (name, text) in enumerate(answers):
        assert name == "LostContactError"
        assert text.startswith(f"rank {rank}: contact with another process was lost: ")
    lost = group.ranks[3].command
    lost.communicate(60)
    assert lost.returncode == 3
    assert time.monotonic() - begin < 50
