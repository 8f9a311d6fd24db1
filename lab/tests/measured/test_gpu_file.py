"""The measurement of a GPU, on the processor with small shapes: its file, its reader, and the
comparison with predictions."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from hypothesis import given, settings
from hypothesis import strategies as st

from armillary.errors import InputError
from armillary.platform import Platform
from armillary.workload import build
from armillary_lab.measured import gpu
from armillary_lab.predict.gpu import Compared, LeftOut, _decoder, predictions, preset
from armillary_lab.score.gpu import GpuScores
from armillary_lab.score.gpu import main as compare

torch = pytest.importorskip("torch", reason="the measurement needs PyTorch")
sys.path.insert(0, str(ROOT / "lab/bench/python"))

import gpu_single  # noqa: E402
import gpu_steps  # noqa: E402
import gpu_timing  # noqa: E402
import measure_gpu  # noqa: E402

PARTS = {"launches", "products", "attention", "llama", "dlrm"}
PARTS |= {"experts", "streams", "copies", "hot"}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file: Path = tmp_path_factory.mktemp("gpu") / "measured.json"
    assert measure_gpu.main([str(file), "--device", "cpu", "--small"]) == 0
    return file


def _changed(path: Path, folder: Path, **keys: Any) -> Path:  # noqa: ANN401
    """The file with other values of some keys."""
    file = folder / "changed.json"
    file.write_text(json.dumps(json.loads(path.read_text()) | keys))
    return file


def test_every_part_is_measured(path: Path) -> None:
    file = gpu.read(path)
    assert {part.name for part in file.parts} == PARTS
    assert file.complete
    assert [part.failed for part in file.parts] == [()] * len(PARTS)
    assert sum(part.measured for part in file.parts) == len(file.kernels) + len(file.steps)
    assert {row.kind for row in file.kernels} == {
        "launch", "gemm", "attention", "experts", "stream", "hot"
    }  # fmt: skip


def test_all_that_is_finished_is_kept(tmp_path: Path) -> None:
    """Ctrl-C in the second of three parts, after its first case."""
    timing = gpu_timing.Timing(2.0, 0.0, "wall", 1, 1)
    case = gpu_single.Case({"kind": "stream", "op": "copy", "bytes": 8}, lambda: timing)

    def interrupted() -> Iterator[gpu_single.Case]:
        yield case
        raise KeyboardInterrupt

    def one() -> Iterator[gpu_single.Case]:
        yield case

    device, file = gpu_timing.Device("cpu"), tmp_path / "m.json"
    made = measure_gpu.Measurement(device, file, True, 100.0)
    given_parts = [
        measure_gpu.Part("a", 10, one),
        measure_gpu.Part("b", 10, interrupted),
        measure_gpu.Part("c", 10, one),
    ]
    with pytest.raises(KeyboardInterrupt):
        measure_gpu.measure(made, given_parts, gpu_timing.Readings(False))
    found = gpu.read(file)
    assert not found.complete
    assert [(part.name, part.measured) for part in found.parts] == [("a", 1), ("b", 1)]
    assert len(found.kernels) == 2


def test_without_time_and_with_failures_the_file_says_so(tmp_path: Path) -> None:
    file = tmp_path / "m.json"

    def broken() -> gpu_timing.Timing:
        raise RuntimeError("out of memory\nmore")

    case = gpu_single.Case({"kind": "stream"}, broken)
    made = measure_gpu.Measurement(gpu_timing.Device("cpu"), file, True, 100.0)
    parts = [
        measure_gpu.Part("none", 0, lambda: iter([case, case])),
        measure_gpu.Part("broken", 10, lambda: iter([case])),
    ]
    measure_gpu.measure(made, parts, gpu_timing.Readings(False))
    none, failed = gpu.read(file).parts
    assert (none.no_time, none.failed) == (2, ())
    assert failed.failed == (gpu.Failed("kind=stream", "out of memory"),)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"schema": "armillary.gpu/2"}, "unknown schema"),
        ({"kernels": [{"kind": "sum"}]}, "kernels[0].kind: unknown kind 'sum'"),
        ({"steps": 3}, "3 is not a list"),
        ({"surprise": 1}, "unknown key"),
    ],
)
def test_others_are_refused(path: Path, tmp_path: Path, keys: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError) as caught:
        gpu.read(_changed(path, tmp_path, **keys))
    assert said in str(caught.value)


def test_a_processor_has_no_preset(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare([str(path)]) == 2
    assert "no preset for cpu" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("device", "name"), [("NVIDIA H100 80GB HBM3", "dgx-h100"), ("NVIDIA H200", "hgx-h200")]
)
def test_gpus_have_theirs(path: Path, tmp_path: Path, device: str, name: str) -> None:
    machine = json.loads(path.read_text())["machine"] | {"device": device}
    found = preset(gpu.read(_changed(path, tmp_path, machine=machine)))
    assert Platform.load(found).describe()["npu"] == Platform.load(name).describe()["npu"]


def test_everything_is_compared_or_left_out(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compare([str(path), "-p", "dgx-h100", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    file = gpu.read(path)
    left = sum(each["count"] for each in report["left_out"])
    # A step is compared twice: its time and its memory.
    assert len(report["rows"]) + left == len(file.kernels) + 2 * len(file.steps)
    assert {"step transformer", "step dlrm"} <= {row["group"] for row in report["rows"]}
    assert compare([str(path), "-p", "dgx-h100", "--rows"]) == 0
    assert "small shapes" in capsys.readouterr().out


@settings(max_examples=10)
@given(st.floats(1.01, 9.0))
def test_errors_are_factors(factor: float) -> None:
    """A prediction that is `factor` times what was measured has the error `factor` less one."""
    rows = [Compared("a", "x", 2.0, 2.0 * factor), Compared("a", "y", 3.0 * factor, 3.0)]
    (found,) = GpuScores(None, "p", rows, [LeftOut("b", "why")]).scores  # type: ignore[arg-type]
    assert found.median == pytest.approx(100 * (factor - 1))
    assert found.ratio == pytest.approx(1)


def test_both_sides_have_the_same_decoder() -> None:
    """PyTorch's module and our workload have the same parameters."""
    shape = gpu_steps.SMALL_LLAMA
    module = gpu_steps.Llama(shape, torch.device("cpu"))
    keys: dict[str, Any] = {"step_us": (1.0,), "kernels": gpu.Kernels(0, 0, ())}
    model, options = _decoder(gpu.DecoderStep(**shape, **keys))
    summary = build(model, **options).summary
    assert summary is not None
    assert sum(each.numel() for each in module.parameters()) == summary.parameters


def test_lookups_update_as_sgd_does() -> None:
    draw = torch.Generator().manual_seed(5)
    weight = torch.rand(50, 4, generator=draw)
    plain = weight.clone().requires_grad_()
    counts = torch.tensor([3, 1, 2, 4])
    offsets = counts.cumsum(0) - counts
    indices = torch.randint(50, (10,), generator=draw)
    gradient = torch.rand(4, 4, generator=draw)
    trained = torch.zeros((), requires_grad=True)
    gpu_steps._Lookup.apply(weight, indices, offsets, counts, trained).backward(gradient)
    found = torch.nn.functional.embedding_bag(indices, plain, offsets, mode="sum")
    found.backward(gradient)
    assert torch.allclose(weight, (plain - 0.01 * plain.grad).detach())


def test_mixed_adamw_is_adamw_for_32_bits() -> None:
    draw = torch.Generator().manual_seed(6)
    ours = torch.nn.Parameter(torch.rand(7, generator=draw))
    theirs = torch.nn.Parameter(ours.detach().clone())
    mixed = gpu_steps.MixedAdamW([ours])
    plain = torch.optim.AdamW([theirs], lr=1e-4)
    for _ in range(3):
        factor = torch.rand(7, generator=draw)
        for each in (ours, theirs):
            (each * factor).square().sum().backward()
        mixed.step()
        plain.step()
        plain.zero_grad()
    assert torch.allclose(ours, theirs, rtol=1e-6)


def test_pairs_of_predictions_keep_the_order(path: Path) -> None:
    file = gpu.read(path)
    found = list(predictions(file, Platform.load("dgx-h100", {"npus": 1})))
    assert [each.group for each in found[-4:]] == [
        "step transformer", "memory transformer", "step dlrm", "memory dlrm"
    ]  # fmt: skip
