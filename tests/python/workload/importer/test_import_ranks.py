"""Ranks, groups, sizes; more ranks than recorded; what doesn't fit together, each with its
numbers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded import Recording, nccl, step_us

from armillary.errors import InputError
from armillary.workload import Volume
from armillary.workload.importer import Imported, collectives, import_traces, reading
from armillary.workload.importer import host_trace as host_traces
from armillary.workload.importer.spread import Spread


def volumes(imported: Imported, program: int = 0) -> tuple[Volume, ...]:
    summary = imported.workload.summary
    assert summary is not None
    return summary.classes[program].volumes


def run(
    tmp_path: Path,
    calls: list[list[tuple[str, int, list[int]]]],
    world: int = 0,
    dtype: str = "Float",
) -> list[Path]:
    """One trace a rank: each of its calls is a kernel of 50 us every 100 us."""
    paths = []
    for rank, row in enumerate(calls):
        trace = Recording(rank, world or len(calls), pid=100 + rank)
        trace.step(1, 0, 100.0 * (len(row) + 1))
        for k, (name, elements, group) in enumerate(row):
            meta = nccl(name, elements, group, dtype)
            trace.kernel(
                "ncclDevKernel_Generic", 100 * k + 10, 100 * k + 20, 100 * k + 70, stream=20, **meta
            )
        paths.append(trace.write(tmp_path / f"rank{rank}.json.gz"))
    return paths


def problems(paths: list[Path], **options: object) -> list[str]:
    with pytest.raises(InputError) as caught:
        import_traces(paths, **options)  # type: ignore[arg-type]
    return [str(problem) for problem in caught.value.problems]


ALL = [0, 1, 2, 3]


def test_kinds_sizes_and_types(tmp_path: Path) -> None:
    """Bytes are elements times width of the input: of an all-gather a rank's own part."""
    row = [
        ("allreduce", 1000, ALL),
        ("_allgather_base", 250, ALL),
        ("_reduce_scatter_base", 4000, ALL),
        ("all_to_allv", 512, ALL),
        ("broadcast", 64, ALL),
    ]
    result = import_traces(run(tmp_path, [row] * 4, dtype="BFloat16"))
    found = {(volume.kind, volume.bytes) for volume in volumes(result)}
    expected = {
        ("all_reduce", 2000),
        ("all_gather", 500),
        ("reduce_scatter", 8000),
        ("all_to_all", 1024),
    }
    assert found == expected | {("broadcast", 128)}
    assert result.ranks[0].sized == 5


@pytest.mark.parametrize(
    ("name", "width"),
    [
        ("Float", 4),
        ("c10::BFloat16", 2),
        ("long int", 8),
        ("Tensor(float)", 4),
        ("unsigned char", 1),
        ("?", 0),
    ],
)
def test_widths(name: str, width: int) -> None:
    assert collectives.width_of(name) == width


def test_subgroups_keep_their_members(tmp_path: Path) -> None:
    rows = [
        [("allreduce", 100, [0, 2] if rank % 2 == 0 else [1, 3]), ("allreduce", 10, ALL)]
        for rank in range(4)
    ]
    result = import_traces(run(tmp_path, rows))
    assert [volume.group for volume in volumes(result)] == ["", "0-2"]
    assert step_us(result, replay=False) > 0


def test_uneven_all_to_all_keeps_the_total(tmp_path: Path) -> None:
    rows = [[("all_to_allv", 100 * (rank + 1), ALL)] for rank in range(4)]
    result = import_traces(run(tmp_path, rows))
    assert volumes(result)[0].bytes * 4 == (100 + 200 + 300 + 400) * 4
    assert any("400 to 1,600 bytes, mean 1,000" in note for note in result.notes)


def test_messages_meet(tmp_path: Path) -> None:
    """One rank sends 4 MB to the next: two links of 1 us and 40 us at 100 GB/s, after 20 us of host
    work."""
    paths = []
    for rank, name in enumerate(["nccl:send 0->1", "nccl:recv 1<-0"]):
        trace = Recording(rank, 2)
        trace.step(1, 0, 30)
        shape: dict[str, Any] = {"Input Dims": [[1_000_000]], "Input type": ["float"]}
        trace.op(name, 5, 9, **shape)
        trace.kernel("ncclDevKernel_SendRecv(ncclDevKernelArgs)", 15, 20, 28, stream=20)
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    result = import_traces(paths)
    assert [row.messages for row in result.ranks] == [1, 1]
    assert step_us(result, replay=False) == pytest.approx(20 + 2 + 40, abs=0.1)
    assert "1 of 2 ranks were recorded" in problems(paths[:1])[0]


def test_unrecorded_ranks_repeat_the_recorded(tmp_path: Path) -> None:
    result = import_traces(run(tmp_path, [[("allreduce", 100, [0, 1])]], world=8))
    assert result.workload.ranks == 8
    assert any("1 of 8 ranks were recorded" in note for note in result.notes)
    assert step_us(result, replay=False) > 0


def test_more_ranks(tmp_path: Path) -> None:
    """8 ranks of tp 2 and dp 4 as 32: tp groups repeat, dp groups grow to 16, an all-gather's shard
    is a quarter."""
    rows = [
        [
            ("allreduce", 100, [rank - rank % 2, rank - rank % 2 + 1]),
            ("_allgather_base", 4096, [rank % 2, *range(2 + rank % 2, 8, 2)]),
        ]
        for rank in range(8)
    ]
    result = import_traces(run(tmp_path, rows), ranks=32)
    assert result.workload.ranks == 32
    by_kind = {volume.kind: volume for volume in volumes(result)}
    assert by_kind["all_reduce"].bytes == 400
    assert by_kind["all_gather"].bytes == 4096 * 4 // 4
    assert any("4 copies" in note for note in result.notes)
    assert any("lower" in note or "below" in note for note in result.notes)


@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 5))
def test_growth_is_consistent(inner: int, outer: int, copies: int) -> None:
    """Groups of a grown run tile the ranks: whoever is in a rank's group has that same group."""
    world = inner * outer
    plan = Spread(world, world * copies, tuple(range(world)))

    def data(source: int) -> tuple[int, ...]:
        return tuple(range(source % inner, world, inner))

    def model(source: int) -> tuple[int, ...]:
        return tuple(range(source - source % inner, source - source % inner + inner))

    for rank in range(plan.ranks):
        for group, kind, size in (
            (data, "all_reduce", outer * copies),
            (model, "all_to_all", inner),
        ):
            extent = plan.extent(plan.source(rank), group(plan.source(rank)), kind)
            members = plan.members(rank, extent)
            assert rank in members
            assert all(plan.members(other, extent) == members for other in members)
            assert all(
                plan.extent(plan.source(other), group(plan.source(other)), kind) == extent
                for other in members
            )
            if 1 < inner < world:
                assert len(set(members)) == size


def test_all_to_alls_need_a_word(tmp_path: Path) -> None:
    paths = run(tmp_path, [[("all_to_all", 800, ALL)]] * 4)
    assert "1 all-to-alls run over all 4 ranks" in problems(paths, ranks=8)[0]
    kept = import_traces(paths, ranks=8, all_to_all="keep")
    assert volumes(kept)[0] == Volume("", "all_to_all", 1, 3200)
    repeated = import_traces(paths, ranks=8, all_to_all="repeat")
    assert volumes(repeated)[0] == Volume("4 ranks, every 1", "all_to_all", 1, 3200)


def test_ranks_that_do_not_divide(tmp_path: Path) -> None:
    told = problems(run(tmp_path, [[("allreduce", 100, ALL)]] * 4), ranks=10)
    assert "10 ranks are not a multiple of the 4 of the run" in told[0]
    assert "8 or 12" in told[0]


def test_an_irregular_group_is_refused(tmp_path: Path) -> None:
    rows = [
        [("allreduce", 100, [0, 1, 3])],
        [("allreduce", 100, [0, 1, 3])],
        [],
        [("allreduce", 100, [0, 1, 3])],
    ]
    paths = run(tmp_path, rows)
    assert import_traces(paths).workload.ranks == 4
    assert "[0, 1, 3]" in problems(paths, ranks=8)[0]


def test_ranks_that_disagree(tmp_path: Path) -> None:
    told = problems(run(tmp_path, [[("allreduce", 1, [0, 1])], [("broadcast", 1, [0, 1])]]))
    assert "call 0 is all_reduce on rank 0 and broadcast on rank 1" in told[0]
    told = problems(run(tmp_path, [[("allreduce", 1, [0, 1])] * 2, [("allreduce", 1, [0, 1])]]))
    assert "rank 0 calls it 2 times in the step, rank 1 1 times" in told[0]


def test_groups_without_members(tmp_path: Path) -> None:
    """One such group is taken to be everybody; two are not; a file may say."""
    paths = []
    for rank in range(2):
        trace = Recording(rank, 2)
        trace.step(1, 0, 300)
        for k, name in enumerate(["a", "b"]):
            meta = {**nccl("allreduce", 10, []), "Group size": 0, "Process Group Name": name}
            trace.kernel(
                "ncclKernel_AllReduce", 100 * k + 10, 100 * k + 20, 100 * k + 40, stream=20, **meta
            )
        paths.append(trace.write(tmp_path / f"rank{rank}.json"))
    told = problems(paths)
    assert "2 process groups with unknown members: a (1 calls), b (1 calls)" in told[0]
    assert import_traces(paths, groups={"a": [0, 1]}).workload.ranks == 2


def test_a_size_only_some_ranks_know(tmp_path: Path) -> None:
    known, unknown = run(tmp_path, [[("allreduce", 100, [0, 1])]] * 2)
    trace = Recording(1, 2)
    trace.step(1, 0, 200)
    trace.kernel("ncclKernel_AllReduce_RING", 10, 20, 70, stream=20)
    trace.write(unknown.with_suffix(""))
    result = import_traces([known, unknown.with_suffix("")])
    assert any("take the size of the same call" in note for note in result.notes)
    assert volumes(result)[0].bytes == 400


def test_unknown_sizes_are_never_a_silent_zero(tmp_path: Path) -> None:
    trace = Recording(0, 2)
    trace.step(1, 0, 200)
    trace.kernel("ncclKernel_AllReduce_RING", 10, 20, 70, stream=20)
    result = import_traces([trace.write(tmp_path / "rank0.json")])
    assert (result.ranks[0].collectives, result.ranks[0].sized) == (1, 0)
    assert any(
        "1 of 1 communication kernels (0.050 ms) have no recorded size" in note
        for note in result.notes
    )


def test_what_does_not_belong_together(tmp_path: Path) -> None:
    paths = run(tmp_path, [[("allreduce", 1, [0, 1])]] * 2)
    other = Recording(1, 4)
    other.step(1, 0, 100)
    assert "world_size is 2 in 1" in problems([paths[0], other.write(tmp_path / "other.json")])[0]
    late = Recording(1, 2)
    late.step(1, 7_200_000_000, 7_200_000_100)
    assert "begins 7,200 s before" in problems([paths[0], late.write(tmp_path / "late.json")])[0]
    again = Recording(0, 2)
    again.step(1, 0, 100)
    assert "is in several files" in problems([paths[0], again.write(tmp_path / "again.json")])[0]
    steps = Recording(1, 2)
    steps.step(7, 0, 100)
    assert (
        "no step is on all 2 ranks" in problems([paths[0], steps.write(tmp_path / "steps.json")])[0]
    )
    assert "it has 1" in problems(paths, step=3)[0]


def host_trace(path: Path, schema: str, nodes: list[dict[str, object]]) -> Path:
    path.write_text(json.dumps({"schema": schema, "pid": 1, "nodes": nodes}), encoding="utf-8")
    return path


def test_mixed_schema_versions(tmp_path: Path) -> None:
    node = {"id": 2, "name": "aten::add", "parent": 1}
    old = host_trace(tmp_path / "rank0.json", "1.0.1", [node])
    new = host_trace(tmp_path / "rank1.json", "1.1.1-chakra.0.0.4", [node])
    assert "1.0.1 in 1 file, 1.1.1 in 1 file" in problems([old, new])[0]
    odd = host_trace(tmp_path / "odd.json", "9.9", [node])
    assert "9.9 is not a known schema version" in problems([odd])[0]


def test_schema_1_0_0_has_lists_of_five_numbers(tmp_path: Path) -> None:
    """A shape of five dimensions is not a tensor; values that are no lists stay."""
    node = {
        "id": 2,
        "name": "aten::view",
        "parent": 1,
        "inputs": [[3, 4, 0, 120, 4], [1, 2, 3, 4, 5], "<None>", 7],
        "input_types": ["Tensor(float)", "GenericList[Int,Int,Int,Int,Int]", "None"],
        "outputs": [[[8, 4, 0, 120, 4], [9, 4, 0, 120, 4]]],
        "output_types": ["GenericList[Tensor(float),Tensor(float)]"],
    }
    document = reading.HostDocument(schema="1.0.0", pid=1, nodes=[node])
    (found,) = host_traces.host_trace(reading.Recording("t.json", 0, document)).nodes
    assert found.inputs == [[3, 4, 0, 120, 4, ""], [1, 2, 3, 4, 5], "<None>", 7]
    assert found.outputs == [[[8, 4, 0, 120, 4, ""], [9, 4, 0, 120, 4, ""]]]


def test_a_circle_of_parents_is_named(tmp_path: Path) -> None:
    nodes = [{"id": k, "name": f"op{k}", "ctrl_deps": k % 3 + 5} for k in (5, 6, 7)]
    path = host_trace(tmp_path / "t.json", "1.1.1", nodes)  # type: ignore[arg-type]
    told = problems([path])[0]
    assert "circle" in told
    assert all(f"op{k} ({k})" in told for k in (5, 6, 7))


@pytest.mark.parametrize("schema", ["1.0.0", "1.0.1"])
def test_an_execution_trace_alone(schema: str, tmp_path: Path) -> None:
    """A product, a collective whose wait comes before the next product."""
    tensor: list[object] = [1, 2, 0, 1024, 4] + (["cuda:0"] if schema != "1.0.0" else [])
    product = {
        "inputs": [tensor, tensor],
        "input_shapes": [[8, 128], [128, 16]],
        "input_types": ["Tensor(float)"] * 2,
    }
    nodes: list[dict[str, object]] = [
        {"id": 3, "name": "aten::mm", "parent": 2, **product},
        {
            "id": 4,
            "name": "record_param_comms",
            "parent": 2,
            "inputs": [[tensor], 9, 77, 0, "allreduce", [], []],
            "input_types": ["GenericList[Tensor(float)]"],
        },
        {"id": 5, "name": "record_param_comms", "parent": 2, "inputs": [9, 77, 0, "wait", [], []]},
        {"id": 6, "name": "aten::mm", "parent": 2, **product},
    ]
    paths = [host_trace(tmp_path / f"rank{rank}.json", schema, nodes) for rank in range(2)]
    result = import_traces(paths)
    summary = result.workload.summary
    assert summary is not None
    assert volumes(result) == (Volume("", "all_reduce", 1, 4096),)
    assert summary.classes[0].operations == 2 * (2 * 8 * 128 * 16)
    assert any("no durations" in note for note in result.notes)
    marks: list[dict[str, object]] = [
        {"id": k, "name": f"ProfilerStep#{k}", "parent": 1} for k in (2, 5)
    ]
    stepped = host_trace(
        tmp_path / "steps.json", schema, [*marks, *(node for node in nodes if node["id"] != 5)]
    )
    assert import_traces([stepped]).workload.operations == 1  # step 5: the product with id 6
    assert import_traces([stepped], step=2).workload.operations == 2
    assert "steps on every rank: 2 5" in problems([stepped], step=3)[0]
    empty = host_trace(
        tmp_path / "alone.json", schema, [{"id": 3, "name": "aten::add", "parent": 2}]
    )
    assert "nothing has a size or a duration" in problems([empty])[0]
