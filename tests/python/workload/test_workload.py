"""Workloads built here, written and read back do the same, in every form that ASTRA-sim or we
read."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import armillary as arm
from armillary.errors import InputError
from armillary.workload import Memory, Program, RankClass, Summary, Volume, Workload, cnn, load

SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
    "peak-perf": 100,
    "roofline-enabled": 1,
    **{
        f"{kind}-implementation": ["ring", "ring"]
        for kind in ("all-reduce", "all-gather", "reduce-scatter")
    },
}


def stage(peer: int) -> Program:
    program = Program()
    last = [program.recv("in", [], peer, 4096, 3)] if peer < 0 else []
    first = program.gemm("gemm", last, m=512, n=256, k=128)
    mid = program.collective("tp", [first], "all_reduce", 1 << 20, "tp")
    other = program.compute(
        "norm", [mid], operations=1 << 20, bytes=1 << 22, kernel="normalization"
    )
    if peer > 0:
        program.send(
            "out", [other], peer, 4096, 3
        )  # before what the next stage joins only after it: ASTRA-sim has one stream
    program.collective("world", [other], "all_gather", 4096)
    program.collective("dp", [other], "all_reduce", 1 << 18, "dp")
    return program


def pipeline() -> Workload:
    programs = [stage(4), stage(-4)]
    memory = (Memory(10, 20, 30, 40), Memory(1, 2, 3, 4))
    classes = tuple(
        RankClass(f"stage {i}", 4, p.operations, p.volumes, m)
        for i, (p, m) in enumerate(zip(programs, memory, strict=True))
    )
    summary = Summary("toy", "test", 8, 7, 7, 2, 100, 120, 0.5, classes, ("a note",))
    groups = {"tp": ["tp"], "dp": ["dp"]}
    return Workload.mesh(
        "toy", [("tp", 2), ("dp", 2), ("pp", 2)], groups, ["pp"], programs, summary
    )


def listed() -> Workload:
    groups = {"tp": [0, 1], "dp": [0, 2, 4, 6]}
    first, second = Program(), Program()
    first.collective("a", [], "all_reduce", 1 << 16, "dp")
    second.collective("b", [], "all_gather", 1 << 10, "")
    first.collective("b", [0], "all_gather", 1 << 10, "")
    return Workload.listed("uneven", [first, second], [0, 1, 0, 1, 0, 1, 0, 1], groups)


def machine(**memory: str) -> arm.Platform:
    settings = {
        "npu.compute": "roofline",
        "npu.peak": "100 TFLOPS",
        "npu.memory.bandwidth": "1 TB/s",
        **{f"npu.memory.{key}": value for key, value in memory.items()},
    }
    return arm.Platform(
        "R(2)_R(4)", bandwidth=["100 GB/s", "50 GB/s"], latency=["1 us", "2 us"], settings=settings
    )


@pytest.fixture
def platform() -> arm.Platform:
    return machine()


def outcome(workload: Workload, platform: arm.Platform, fold: bool = True) -> tuple[float, str]:
    report = arm.simulate(workload, platform, fold=fold).report
    return report["step_time_ns"], report["digest"]


@pytest.mark.parametrize("build", [pipeline, listed])
def test_written_and_read_it_does_the_same(
    build: object, tmp_path: Path, platform: arm.Platform
) -> None:
    workload = build()  # type: ignore[operator]
    expected = outcome(workload, platform)
    assert expected[0] > 0
    assert outcome(workload, platform, fold=False) == expected
    workload.write(tmp_path / "compact")
    workload.write(tmp_path / "chakra", "chakra")
    read = load(tmp_path / "compact", platform)
    assert outcome(read, platform) == expected
    assert (read.ranks, read.operations, read.summary) == (8, workload.operations, workload.summary)
    chakra = load(tmp_path / "chakra", platform, tmp_path / "chakra/comm_group.json")
    assert outcome(chakra, platform) == expected
    read.write(tmp_path / "again")
    for file in (tmp_path / "compact").iterdir():
        assert (tmp_path / "again" / file.name).read_bytes() == file.read_bytes(), file.name


def test_astra_sim_s_flags_read_what_we_write(tmp_path: Path, armillary: object) -> None:
    pipeline().write(tmp_path / "w", "chakra")
    (tmp_path / "system.json").write_text(json.dumps(SYSTEM))
    (tmp_path / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    (tmp_path / "network.yml").write_text(
        "topology: [Ring, Ring]\nnpus_count: [2, 4]\nbandwidth: [50.0, 50.0]\nlatency: [500.0, "
        "500.0]\n"
    )
    done = armillary(  # type: ignore[operator]
        "astra-sim",
        f"--workload-configuration={tmp_path}/w/trace",
        f"--comm-group-configuration={tmp_path}/w/comm_group.json",
        f"--system-configuration={tmp_path}/system.json",
        f"--network-configuration={tmp_path}/network.yml",
        f"--remote-memory-configuration={tmp_path}/memory.json",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("finished") == 8


def test_program_counts_what_it_is_told() -> None:
    program = stage(4)
    assert program.operations == 2 * 512 * 256 * 128 + (1 << 20)
    assert program.volumes == (
        Volume("", "all_gather", 1, 4096),
        Volume("", "send", 1, 4096),
        Volume("dp", "all_reduce", 1, 1 << 18),
        Volume("tp", "all_reduce", 1, 1 << 20),
    )


def test_what_does_not_fit_is_said_in_the_report(platform: arm.Platform) -> None:
    for capacity, said in (("94 B", "does not fit"), ("99 B", "may not fit")):
        (warning,) = arm.simulate(pipeline(), machine(capacity=capacity)).report["warnings"]
        assert "rank 0 needs" in warning
        assert said in warning
    assert arm.simulate(pipeline(), platform).report["warnings"] == []


def test_programs_are_refused_with_what_is_allowed() -> None:
    program = Program()
    with pytest.raises(ValueError, match="convolution"):
        program.compute("x", [], kernel="conv")
    with pytest.raises(ValueError, match="all_reduce"):
        program.collective("x", [], "all_sum", 1)
    with pytest.raises(ValueError, match="3"):
        program.gemm("x", [3], m=1, n=1, k=1)
    assert len(program) == 0
    program.collective("x", [], "all_reduce", 1, "tp")
    with pytest.raises(InputError, match="tp"):
        Workload.mesh("m", [("dp", 2)], {"dp": ["dp"]}, [], [program])
    with pytest.raises(InputError, match="ranks from 0 to 0"):
        Workload.listed("m", [program], [0], {"tp": [1]})


def _with_summary(folder: Path, **changed: object) -> Path:
    """A workload on the disk with another summary; a value `None` takes the field out."""
    file = folder / "workload.json"
    content = json.loads(file.read_text())
    summary = {**content["summary"], **changed}
    content["summary"] = {key: value for key, value in summary.items() if value is not None}
    file.write_text(json.dumps(content))
    return folder


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        (
            {"hardware_flops": None},
            "summary: does not fit: Object missing required field `hardware_flops`",
        ),
        ({"classes": 5}, "summary.classes: does not fit: Expected `array`, got `int`"),
        ({"ranks": 0}, "summary.ranks: does not fit: Expected `int` >= 1"),
        ({"ranks": 7}, "summary.ranks: is 7, but the workload has 2 ranks"),
        ({"flops": -1}, "summary.flops"),
        ({"bubble": 1.5}, "summary.bubble"),
        ({"batch": "4"}, "summary.batch"),
        ({"classes": [{"name": "x"}]}, "summary.classes[0]"),
    ],
)
def test_a_summary_that_does_not_fit_names_file_and_field(
    tmp_path: Path, changed: dict[str, object], expected: str
) -> None:
    cnn("resnet-50", dp=2).write(tmp_path / "w")
    with pytest.raises(InputError) as caught:
        load(_with_summary(tmp_path / "w", **changed))
    assert f"workload.json: {expected}" in str(caught.value)


def test_fields_that_later_versions_add_to_a_summary_are_left_out(tmp_path: Path) -> None:
    made = cnn("resnet-50", dp=2)
    made.write(tmp_path / "w")
    assert load(_with_summary(tmp_path / "w", future=[1])).summary == made.summary
