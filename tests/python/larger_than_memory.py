"""A model that is larger than the memory of two NPUs, and platforms for it."""

from __future__ import annotations

from pathlib import Path

import armillary as arm

TABLES, ROWS, DIM = 8, 1_000_000, 32
BYTES = ROWS * (4 * DIM + 4)
"""Of a table with its optimizer state: row-wise AdaGrad keeps a number for each row."""


def model(folder: Path) -> str:
    """Tables with one lookup, two, and so on."""
    path = folder / "large.yml"
    tables = [
        f"  - {{name: t{at}, rows: {ROWS}, dim: {DIM}, pooling: {at + 1}}}" for at in range(TABLES)
    ]
    path.write_text(
        "family: dlrm\nsource: a test\ndense_features: 13\nbottom: [64, 32]\n"
        "interaction: {kind: dot}\ntop: [64, 1]\nlocal_batch: 128\nwidth: 4\ntables:\n"
        + "\n".join(tables)
    )
    return str(path)


def platform(host: str, nvme: str = "{bandwidth: 2 GB/s}") -> arm.Platform:
    """Two NPUs with 300 MB each; a table with its state has 132."""
    return arm.Platform.parse(f"""
topology: FullyConnected(2)
links: {{bandwidth: 10 GB/s, latency: 1 us, per: link}}
npu: {{peak: 1 TFLOPS, memory: {{bandwidth: 20 GB/s, capacity: 300 MB}}}}
remote_memory:
  model: zero_infinity
  cpu: {{bandwidth: 10 GB/s, capacity: {host}}}
  nvme: {nvme}
""")
