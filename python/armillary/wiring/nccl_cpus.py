"""Links between the CPUs of an NCCL topology: NCCL's own numbers, by vendor, family and model."""

from __future__ import annotations

from itertools import combinations

from .gpus import C2C, GRACE
from .nccl_parts import Gpu, Reading
from .xml import Element

_TOPO_H = "NCCL's src/graph/topo.h"
_INTEL = ((207, "ERP", 40.0), (143, "SRP", 22.0), (85, "SKL", 10.0), (0, "BDW", 6.0))
"""Two Intel CPUs of family 6, from a model on: name and GB/s (`ERP_QPI_BW` ...)."""
_NEWER = (0xAD, 0xAE, 0xAF)
"""Granite Rapids and Sierra Forest: newer than Emerald Rapids, with lower model numbers."""
_AMD = {
    23: ("ZEN12", 16.0), 0x8F: ("ZEN12", 16.0),
    25: ("ZEN34", 24.0), 0xAF: ("ZEN34", 24.0),
    26: ("ZEN5", 32.0), 0xBF: ("ZEN5", 32.0),
}  # fmt: skip
"""Two AMD CPUs by family, as CPUID counts and as older files do."""
_ZHAOXIN = ("CentaurHauls", "  Shanghai  ")
_YONGFENG = (7, 0x5B)
_WAY_OUT = "--assume 'cpu=20 GB/s' says what two CPUs send each other, in one direction"


def join(reading: Reading, cpus: dict[str, Element], gpus: list[Gpu]) -> None:
    """Adds links between the CPUs of each host."""
    for one, other in combinations(cpus, 2):
        hosts = [cpus[name].attributes.get("host_hash", "") for name in (one, other)]
        if hosts[0] != hosts[1]:
            continue
        speed, source = _speed(reading, cpus[one], gpus)
        known = reading.assumed.cpu(speed, source)
        if known is None:
            message = f"what joins two CPUs of {source} is not known"
            reading.refuse(cpus[one], message, _WAY_OUT)
            return
        reading.link((one, other), known, reading.assumed.latency("cpu"), "cpu")


def _speed(reading: Reading, cpu: Element, gpus: list[Gpu]) -> tuple[float | None, str]:
    """GB/s between two CPUs, and where that is said; nothing and the CPU where it is unknown."""
    said = cpu.attributes
    arch, vendor = said.get("arch", ""), said.get("vendor", "")
    family, model = reading.whole(cpu, "familyid"), reading.whole(cpu, "modelid")
    if arch == "arm64":
        return _arm(reading, gpus)
    if arch == "ppc64":
        return 32.0, f"{_TOPO_H}: P9_BW"
    if vendor == "GenuineIntel" and family == 6 and model is not None:
        model = 207 if model in _NEWER else model
        name, speed = next((name, speed) for known, name, speed in _INTEL if model >= known)
        return speed, f"{_TOPO_H}: {name}_QPI_BW"
    if vendor == "AuthenticAMD" and family in _AMD:
        name, speed = _AMD[family]
        return speed, f"{_TOPO_H}: AMD_{name}_BW"
    if vendor in _ZHAOXIN:
        return (9.0 if (family, model) == _YONGFENG else 6.0), f"{_TOPO_H}: ZPI_BW"
    return None, f"vendor {vendor!r}, arch {arch!r}, family {family}, model {model}"


def _arm(reading: Reading, gpus: list[Gpu]) -> tuple[float | None, str]:
    """Grace, where GPUs are joined by NVLink-C2C. NCCL counts 6 GB/s for any Arm CPU, too little
    for most."""
    product = reading.assumed.product
    if (product is not None and product.grace) or any(gpu.c2c is not None for gpu in gpus):
        return C2C, GRACE
    return None, "arch 'arm64'"
