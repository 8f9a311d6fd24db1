"""`armillary astra-sim`: the peer's flags in either form, the peer's lines, our exit codes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import et
import pytest
from conftest import Armillary

SYSTEM = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 1,
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
    **{
        f"{kind}-implementation": ["ring"]
        for kind in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
    },
}
LINE = re.compile(
    r"\[workload\] \[info\] sys\[(\d+)\] finished, (\d+) cycles, exposed communication (\d+) "
    r"cycles\."
)


@pytest.fixture
def flags(tmp_path: Path) -> dict[str, str]:
    """A ring of four, 50 GB/s (of 2^30 bytes), 500 ns; every rank computes 5 us and gathers 1 MiB
    from each."""
    (tmp_path / "system.json").write_text(json.dumps(SYSTEM))
    (tmp_path / "network.yml").write_text(
        "topology: [Ring]\nnpus_count: [4]\nbandwidth: [50.0]\nlatency: [500.0]\n"
    )
    (tmp_path / "memory.json").write_text('{"memory-type": "NO_MEMORY_EXPANSION"}')
    step = [et.compute(0, 5), et.collective(1, 1 << 20, [0], et.ALL_GATHER)]
    et.write(tmp_path, [step] * 4)
    return {
        "--workload-configuration": "trace",
        "--system-configuration": "system.json",
        "--network-configuration": "network.yml",
        "--remote-memory-configuration": "memory.json",
    }


def joined(flags: dict[str, str]) -> list[str]:
    return [f"{flag}={value}" for flag, value in flags.items()]


def test_lines(flags: dict[str, str], armillary: Armillary) -> None:
    """One all-gather chunk: e + 3 (d + e) with e = 10 ns, d = floor(500 + 2^20 / (50 * 2^30 / 1e9))
    = 20031 ns."""
    run = armillary("astra-sim", *joined(flags))
    assert run.returncode == 0, run.stderr
    exposed = 10 + 3 * (20031 + 10)
    assert LINE.findall(run.stdout) == [
        (str(rank), str(5000 + exposed), str(exposed)) for rank in range(4)
    ]


def test_both_forms_of_flags(flags: dict[str, str], armillary: Armillary) -> None:
    apart = [word for pair in flags.items() for word in pair]
    assert armillary("astra-sim", *apart).stdout == armillary("astra-sim", *joined(flags)).stdout


@pytest.mark.parametrize("backend", ["analytical", "link"])
def test_result_beside_the_lines(
    backend: str, flags: dict[str, str], armillary: Armillary, tmp_path: Path
) -> None:
    run = armillary("astra-sim", *joined(flags), "--backend", backend, "--json=out.json")
    assert len(LINE.findall(run.stdout)) == 4
    report = json.loads((tmp_path / "out.json").read_text())
    assert report["config"]["backend"] == backend
    assert report["step_time_ns"] == float(LINE.findall(run.stdout)[-1][1])
    alone = armillary("astra-sim", *joined(flags), "--backend", backend, "--json=-")
    assert json.loads(alone.stdout) == report


def test_flags_without_effect_are_named(flags: dict[str, str], armillary: Armillary) -> None:
    run = armillary("astra-sim", *joined(flags), "--comm-scale=2")
    assert run.returncode == 0
    assert len(LINE.findall(run.stdout)) == 4
    assert run.stderr.startswith("warning: ")
    assert "--comm-scale" in run.stderr


@pytest.mark.parametrize(
    "wrong", ["--no-such-flag=1", "--backend=magic", "--json", "--num-queues-per-dim=0", "stray"]
)
def test_wrong_flags(wrong: str, flags: dict[str, str], armillary: Armillary) -> None:
    run = armillary("astra-sim", *joined(flags), wrong)
    assert run.returncode == 2
    assert run.stdout == ""
    assert run.stderr.startswith("error: ")
    assert f"in: {wrong.partition('=')[0]}\n" in run.stderr


def test_every_missing_file_is_named(armillary: Armillary) -> None:
    run = armillary("astra-sim")
    assert run.returncode == 2
    for flag in ("workload", "system", "network", "remote-memory"):
        assert f"--{flag}-configuration" in run.stderr


def test_unwritable_result_is_refused_beforehand(
    flags: dict[str, str], armillary: Armillary
) -> None:
    run = armillary("astra-sim", *joined(flags), "--json=no/such/out.json")
    assert run.returncode == 2
    assert run.stdout == ""


def test_reader_that_leaves_early(flags: dict[str, str], tmp_path: Path) -> None:
    """`| head -1` ends quietly."""
    (tmp_path / "network.yml").write_text(
        "topology: [Ring]\nnpus_count: [4]\nbandwidth: [50.0]\nlatency: [500.0]\n"
    )
    command = f"{sys.executable} -m armillary.cli astra-sim {' '.join(joined(flags))} | true"
    run = subprocess.run(
        ["bash", "-c", command], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.stderr == ""


def test_help(armillary: Armillary) -> None:
    run = armillary("astra-sim", "--help")
    assert run.returncode == 0
    assert "--workload-configuration" in run.stdout
