"""`armillary convert`, `--passes` and `--format text`: what a workload is in another form, and what
is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import ROOT, Armillary

import armillary as arm
from armillary.errors import InputError

TEXT = """HYBRID_TRANSFORMER\tmodel_parallel_NPU_group: 4
2
q\t-1\t3000\tNONE\t0\t2000\tALLREDUCE\t65536\t2500\tALLREDUCE\t131072\t10
mlp\t-1\t8000\tALLREDUCE\t65536\t7000\tNONE\t0\t9000\tALLREDUCE\t524288\t10
"""
PLATFORM = """topology: Ring(4)_Switch(2)
links: {bandwidth: 25 GB/s, latency: 700 ns}
"""
WHOLE = """topology: Ring(4)
links: {bandwidth: 100 MB/s, latency: 700 ns}
npu: {peak: 1 GFLOP/s, memory: {bandwidth: 1 GB/s}, compute: {model: roofline, efficiency: 1}}
"""
"""An operation and a byte take 1 ns each: every computation takes whole ns."""


def simulated(armillary: Armillary, *arguments: str) -> tuple[float, str]:
    """Step time in ns, and the digest of the events."""
    done = armillary("run", *arguments, "--json", "-")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    return report["step_time_ns"], report["digest"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "model.txt").write_text(TEXT, encoding="utf-8")
    (tmp_path / "p.yml").write_text(PLATFORM, encoding="utf-8")
    (tmp_path / "whole.yml").write_text(WHOLE, encoding="utf-8")
    return tmp_path


@pytest.mark.parametrize("form", ["compact", "chakra"])
def test_text_to_chakra_and_back(armillary: Armillary, folder: Path, form: str) -> None:
    """Both run alike, event for event, and the text that comes back is the same to the byte."""
    passes = ("--passes", "2")
    done = armillary(
        "convert",
        "model.txt",
        "-p",
        "p.yml",
        "-o",
        "out",
        "--format",
        form,
        *passes,
        "--json",
        "c.json",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads((folder / "c.json").read_text())["ranks"] == 8
    groups = ("--groups", "out/comm_group.json") if form == "chakra" else ()
    assert simulated(armillary, "model.txt", "-p", "p.yml", *passes) == simulated(
        armillary, "out", "-p", "p.yml", *groups
    )
    back = armillary("convert", "out", "-p", "p.yml", *groups, "-o", "back.txt", "--format", "text")
    assert back.returncode == 0, back.stderr
    assert "--passes 2" in back.stderr
    assert (folder / "back.txt").read_text() == TEXT


def test_chakra_out_and_in(armillary: Armillary) -> None:
    """Traces as they are, as one file a program and as one file a rank again: the same events."""
    example = ROOT / "examples/gpt-64"
    source = (str(example), "--groups", str(example / "comm_group.json"))
    platform = ("-p", str(example / "platform.yml"))
    for arguments in (
        (*source, "-o", "compact"),
        ("compact", "-o", "chakra", "--format", "chakra"),
    ):
        done = armillary("convert", *arguments)
        assert done.returncode == 0, done.stderr
    original = simulated(armillary, *source, *platform)
    assert simulated(armillary, "compact", *platform) == original
    assert (
        simulated(armillary, "chakra", "--groups", "chakra/comm_group.json", *platform) == original
    )
    # Two stages do different things, which no text can say.
    refused = armillary("convert", "compact", "-o", "x", "--format", "text", *platform)
    assert refused.returncode == 2
    assert "the ranks run 2 different programs" in refused.stderr


def test_passes(armillary: Armillary, folder: Path) -> None:
    """Passes overlap only in the reductions of weight gradients, so three take nearly thrice as
    long."""
    one, three = (
        simulated(armillary, "model.txt", "-p", "p.yml", "--passes", passes)[0]
        for passes in ("1", "3")
    )
    assert 2.2 * one < three <= 3 * one
    platform = arm.Platform.load(folder / "p.yml")
    again = arm.simulate(arm.load(folder / "model.txt", platform, passes=3), platform)
    assert again.step_time_ns == three
    assert armillary("check", "model.txt", "-p", "p.yml", "--passes", "3").returncode == 0
    with pytest.raises(InputError, match="invalid number of passes: -1"):
        arm.load(folder / "model.txt", platform, passes=-1)


def test_a_generated_model_as_text_takes_the_same_step(armillary: Armillary, folder: Path) -> None:
    """Times that are whole ns are equal, and then the step is."""
    made = (
        "workload",
        "resnet-50",
        "--dp",
        "4",
        "--local-batch",
        "1",
        "--passes",
        "2",
        "-p",
        "whole.yml",
    )
    for more in (("-o", "r"), ("-o", "r.txt", "--format", "text")):
        done = armillary(*made, *more)
        assert done.returncode == 0, done.stderr
    lines = (folder / "r.txt").read_text().splitlines()
    assert lines[:2] == ["DATA", "54"]
    # 112 x 112 x 64 outputs of 147 multiply-and-adds, and 2 tensors of 32-bit values for the
    # normalisation.
    outputs = 112 * 112 * 64
    assert lines[2].split()[2] == str(2 * 147 * outputs + 2 * 4 * outputs)
    for backend in ("analytical", "link"):
        original = simulated(armillary, "r", "-p", "whole.yml", "--backend", backend)[0]
        text = simulated(
            armillary, "r.txt", "-p", "whole.yml", "--passes", "2", "--backend", backend
        )[0]
        assert original == text


@pytest.mark.parametrize("scale", ["1", "3"])
def test_rounding_is_at_most_a_nanosecond_for_each_computation(tmp_path: Path, scale: str) -> None:
    # A layer is one computation of the text, and slowed as a whole where it starts beside
    # communication.
    platform = arm.Platform.load(
        "dgx-a100", {"npu.compute.speedup": scale, "npu.compute.comm_overlap_slowdown": 0}
    )
    workload = arm.workload.cnn(dp=8, local_batch=4, passes=2)
    text = workload.as_text(platform)
    workload.write(tmp_path / "r.txt", "text", platform)
    assert (tmp_path / "r.txt").read_text() == text.text
    assert (text.passes, text.warnings) == (2, ())
    step = arm.simulate(workload, platform).step_time_ns
    late = (
        arm.simulate(
            arm.load(tmp_path / "r.txt", platform, passes=text.passes), platform
        ).step_time_ns
        - step
    )
    print(f"step {step} ns, as text {late} ns later, bound {2 * 161} ns")
    assert 0 <= late <= 2 * (3 * 54 - 1)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "out", "-p", "p.yml", "--passes", "2"), "2 passes of a trace"),
        (("convert", "out", "-o", "x", "--passes", "2"), "2 passes of a trace"),
        (("check", "-p", "p.yml", "--passes", "2"), "there is no workload"),
        (("convert", "model.txt", "-o", "x"), "does not say how many NPUs"),
        (("convert", "out", "-o", "x", "--format", "text"), "which depend on the platform"),
        (("convert", "out", "-o", "x", "--npus", "8"), "changes a platform, but none is given"),
        (("convert", "out", "-o", "x", "--format", "xml"), "allowed: compact, chakra, text"),
        (("convert", "out", "-o", "no/x", "--format", "text", "-p", "p.yml"), "can't be written"),
        (
            ("convert", "out", "-o", "x", "--format", "text", "-p", "whole.yml"),
            "has 8 ranks, but the platform has 4 NPUs",
        ),
        (
            (
                "workload",
                "llama-3-8b",
                "--tp",
                "4",
                "--dp",
                "2",
                "-o",
                "x",
                "--format",
                "text",
                "-p",
                "p.yml",
            ),
            "more nodes",
        ),
    ],
)
def test_bad_input(
    armillary: Armillary, folder: Path, arguments: tuple[str, ...], said: str
) -> None:
    assert armillary("convert", "model.txt", "-p", "p.yml", "-o", "out").returncode == 0
    done = armillary(*arguments)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert not (folder / "x").exists()


def test_a_format_and_its_platform(tmp_path: Path) -> None:
    platform = arm.Platform.load("dgx-a100")
    workload = arm.workload.cnn(dp=8)
    with pytest.raises(InputError, match="no platform, whose times it would hold"):
        workload.write(tmp_path / "x", "text")
    with pytest.raises(InputError, match="which it does not need"):
        workload.write(tmp_path / "x", "chakra", platform)
    with pytest.raises(InputError, match="has 8 NPUs, but the workload has 4 ranks"):
        arm.workload.cnn(dp=4).as_text(platform)
