"""GPUs by name: how many NVLinks each has, its PCIe slot, and its link to the CPU.

Sources: NVIDIA's data sheets of each product; the generation of PCIe and the speed of an NVLink
follow from the compute capability (`assumed.py`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

C2C = 450.0
"""GB/s of a Grace's NVLink-C2C in one direction: 900 GB/s both ways (NVIDIA's data sheets). The two
GPUs of a GB200 share it."""
GRACE = "NVIDIA's data sheets: NVLink-C2C, between two Grace CPUs as to a GPU"
"""Source of what two Grace CPUs send each other."""
_GB10_C2C = 345.0
_GB10 = "NVIDIA/nccl pull request 2202: eight links of 43.125 GB/s"
_BRANDS = re.compile(
    r"NVIDIA|GEFORCE|TESLA|QUADRO|HGX|DGX|\d+ ?GB\b|HBM\d\w?|SXM\d?|GENERATION|BLACKWELL|SERVER"
    r"|WORKSTATION|EDITION|[\s_-]+"
)


@dataclass(frozen=True)
class Gpu:
    """A GPU: compute capability, NVLinks, lanes of PCIe, GB/s to its CPU by another link than
    PCIe, and whether that CPU is a Grace.

    `bridged` GPUs are PCIe cards. Their NVLinks need a bridge, so a machine may have none."""

    capability: int
    nvlinks: int = 0
    bridged: bool = False
    lanes: int = 16
    c2c: float = 0.0
    grace: bool = False
    c2c_source: str = "NVIDIA's data sheets: NVLink-C2C"


GPUS = {
    "P100": Gpu(60, 4),
    "V100": Gpu(70, 6),
    "V100 PCIe": Gpu(70),
    "T4": Gpu(75),
    "RTX 2080 Ti": Gpu(75, 2, bridged=True),
    "A100": Gpu(80, 12),
    "A100 PCIe": Gpu(80, 12, bridged=True),
    "A800": Gpu(80, 8),
    "A30": Gpu(80, 4, bridged=True),
    "A2": Gpu(86, lanes=8),
    "A10": Gpu(86),
    "A10G": Gpu(86),
    "A16": Gpu(86),
    "A40": Gpu(86, 4, bridged=True),
    "A4000": Gpu(86),
    "A5000": Gpu(86, 4, bridged=True),
    "A6000": Gpu(86, 4, bridged=True),
    "RTX 3090": Gpu(86, 4, bridged=True),
    "L4": Gpu(89),
    "L20": Gpu(89),
    "L40": Gpu(89),
    "L40S": Gpu(89),
    "RTX 4090": Gpu(89),
    "RTX 6000 Ada": Gpu(89),
    "H100": Gpu(90, 18),
    "H100 PCIe": Gpu(90, 12, bridged=True),
    "H100 NVL": Gpu(90, 12, bridged=True),
    "H20": Gpu(90, 18),
    "H200": Gpu(90, 18),
    "H200 NVL": Gpu(90, 18, bridged=True),
    "H800": Gpu(90, 8),
    "GH200": Gpu(90, 18, c2c=C2C, grace=True),
    "B200": Gpu(100, 18),
    "GB200": Gpu(100, 18, c2c=C2C / 2, grace=True),
    "B300": Gpu(103, 18),
    "GB300": Gpu(103, 18, c2c=C2C / 2, grace=True),
    "RTX 5090": Gpu(120),
    "RTX PRO 6000": Gpu(120),
    "GB10": Gpu(121, lanes=4, c2c=_GB10_C2C, c2c_source=_GB10),
}
"""GPUs by the name of the product."""


def known(name: str) -> Gpu | None:
    """A GPU by the name that a person or a driver gives it: `NVIDIA A100-SXM4-80GB` is an A100."""
    return _PLAIN.get(_plain(name))


def _plain(name: str) -> str:
    return _BRANDS.sub("", name.upper().replace("-", " ")).replace("RTXA", "A")


_PLAIN = {_plain(name): gpu for name, gpu in GPUS.items()}
