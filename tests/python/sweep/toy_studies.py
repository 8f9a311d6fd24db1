"""Studies small enough for tests: eight NPUs, a workload of two nodes in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from armillary.workload import Program, Workload

PLATFORM = """\
name: toy
topology: R(4)_SW(2)
links:
  - {bandwidth: 100 GB/s, latency: 500 ns}
  - {bandwidth: 25 GB/s, latency: 2 us}
npu: {compute: roofline, peak: 100 TFLOPS, memory: {bandwidth: 1 TB/s}}
"""


def files(folder: Path) -> Path:
    """`toy.yml` and the workload `work` in `folder`."""
    program = Program()
    first = program.compute("forward", [], operations=10**9, bytes=10**6)
    program.collective("gradients", [first], "all_reduce", 1 << 24)
    Workload.listed("toy", [program], [0] * 8, {}).write(folder / "work")
    (folder / "toy.yml").write_text(PLATFORM, encoding="utf-8")
    return folder


def study(**changes: object) -> dict[str, Any]:
    """Twelve points of the workload in `files`; keys of `changes` replace, `None` removes."""
    found: dict[str, Any] = {
        "workload": "work",
        "platform": "toy.yml",
        "parameters": {
            "platform.scheduler.chunks": [1, 2, 4],
            "outer": {
                "set": "platform.links[1].bandwidth",
                "from": "10 GB/s",
                "to": "40 GB/s",
                "steps": 4,
            },
        },
    }
    return {key: each for key, each in {**found, **changes}.items() if each is not None}


def write(folder: Path, content: dict[str, Any], name: str = "study.yml") -> Path:
    """The study as a file beside its inputs."""
    path = files(folder) / name
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
    return path
