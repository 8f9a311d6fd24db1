"""Which layer of the model an operation belongs to, wherever it comes from."""

from __future__ import annotations

from pathlib import Path

import pytest
from recorded import Recording

import armillary as arm
from armillary.model.files import load_model
from armillary.schema import Detail
from armillary.workload import Program, Workload, build, load, transformer
from armillary.workload.importer import import_traces


def platform(npus: int) -> arm.Platform:
    settings = {"npu.peak": "100 TFLOPS", "npu.memory.bandwidth": "1 TB/s"}
    return arm.Platform(f"Switch({npus})", bandwidth="100 GB/s", latency="1 us", settings=settings)


def detail(workload: Workload) -> Detail:
    found = arm.simulate(workload, platform(workload.ranks), detail=True).report["detail"]
    assert found is not None
    return found


def layers(workload: Workload) -> list[str]:
    return list(dict.fromkeys(row["layer"] for row in detail(workload)["layers"]))


def labelled() -> Workload:
    program = Program()
    with program.layer("layer3"):
        first = program.compute("0.qkv", [], operations=10**6, bytes=10**6)
        with program.layer("inner"):
            program.collective("0.reduce", [first], "all_reduce", 1 << 20)
        program.compute("0.mlp", [first], operations=10**6, bytes=10**6)
    program.compute("step.optimizer", [first], operations=10**6, bytes=10**6)
    return Workload.listed("labelled", [program], [0, 0], {})


def test_within_a_layer_and_without() -> None:
    assert layers(labelled()) == ["layer3", "inner", "step"]


def test_a_layer_ends_with_an_error() -> None:
    program = Program()
    with pytest.raises(KeyError), program.layer("x"):
        raise KeyError
    assert program.label == ""


@pytest.mark.parametrize("form", ["compact", "chakra"])
def test_files_keep_layers(form: str, tmp_path: Path) -> None:
    made = labelled()
    made.write(tmp_path / "w", "chakra" if form == "chakra" else "compact")
    read, kept = detail(load(tmp_path / "w")), detail(made)
    # Chakra has no place for who wrote a trace, and only names that Armillary gave say which pass
    # an operation is in.
    shown = {key for key in kept if form == "compact" or key != "gantt"}
    assert {key: read.get(key) for key in shown} == {key: kept.get(key) for key in shown}


def test_layers_change_no_result() -> None:
    bare = Program()
    first = bare.compute("0.qkv", [], operations=10**6, bytes=10**6)
    bare.collective("0.reduce", [first], "all_reduce", 1 << 20)
    bare.compute("0.mlp", [first], operations=10**6, bytes=10**6)
    bare.compute("step.optimizer", [first], operations=10**6, bytes=10**6)
    runs = [
        arm.simulate(w, platform(2))
        for w in (labelled(), Workload.listed("bare", [bare], [0, 0], {}))
    ]
    assert runs[0].report["digest"] == runs[1].report["digest"]


def test_a_decoder_has_its_layers() -> None:
    made = transformer("llama-2-7b", tp=2, pp=2, dp=2, global_batch=4, zero=3)
    names = [f"layer{i}" for i in range(32)]
    assert set(layers(made)) == {*names, "embedding", "head", "pipeline", "step"}


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("dlrm-hoti", {"embedding", "indices", "lengths", "interaction"}),
        ("ispass-resnet-50", {"conv1"}),
        ("alexnet", {"conv1"}),
    ],
)
def test_other_families_have_theirs(model: str, expected: set[str]) -> None:
    found = set(layers(build(load_model(model), dp=4)))
    assert expected & found, found
    assert not any(step in name for name in found for step in ("forward", "gradient"))


def test_text_names_its_layers(tmp_path: Path) -> None:
    text = tmp_path / "net.txt"
    text.write_text(
        "DATA\n1\nblock1.conv -1 1000 NONE 0 1000 NONE 0 1000 ALLREDUCE 1048576 10\n",
        encoding="utf-8",
    )
    assert layers(load(text, platform(4))) == ["block1.conv"]


def test_imports_take_the_outermost_annotation(tmp_path: Path) -> None:
    trace = Recording()
    trace.step(1, 0, 1000)
    trace.annotation("forward", 50, 400, tid=1)
    trace.annotation("attention", 80, 200, tid=1)
    trace.kernel("a", 90, 100, 120, tid=1)
    trace.annotation("backward", 450, 700, tid=1)
    trace.kernel("b", 500, 510, 600, tid=2)
    trace.kernel("c", 800, 810, 820, tid=1)
    found = import_traces([trace.write(tmp_path / "rank0.json")]).workload
    rows = {row["layer"]: row["compute_ns"] for row in detail(found)["layers"]}
    assert {name: rows[name] for name in ("forward", "backward", "c")} == {
        "forward": 20e3,
        "backward": 90e3,
        "c": 10e3,
    }
    assert "attention" not in rows
