"""A platform and a workload small enough to be understood, large enough to have something in every
table."""

from __future__ import annotations

from pathlib import Path

import et

PLATFORM = """\
name: toy
topology: R(4)_SW(2)
links:
  - {bandwidth: 100 GB/s, latency: 500 ns}
  - {bandwidth: 25 GB/s, latency: 2 us}
"""


def platform(directory: Path) -> Path:
    """Eight NPUs: rings of four joined by switches."""
    path = directory / "toy.yml"
    path.write_text(PLATFORM, encoding="utf-8")
    return path


def traces(directory: Path) -> str:
    """Forward, gradients, an update: odd ranks compute 10 us longer."""
    step = [
        [
            et.compute(0, 100, name="forward"),
            et.collective(1, 1 << 26, [0], name="gradients"),
            et.compute(2, 50 + 10 * (rank % 2), [0], name="backward"),
            et.collective(3, 1 << 24, [1, 2], et.ALL_GATHER, name="parameters"),
        ]
        for rank in range(8)
    ]
    return et.write(directory / "traces", step)


def stalled(directory: Path) -> str:
    """Rank 0 waits for a message that nobody sends."""
    waits = [et.receive(0, 1, 0, 1024)]
    return et.write(directory / "stalled", [waits, *([et.compute(0, 1)] for _ in range(7))])
