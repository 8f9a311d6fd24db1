"""What a shell offers for an argument: names that come with Armillary. Files are the shell's own
offer."""

from __future__ import annotations

from .. import backends as network
from .. import nccl
from ..platform import presets
from ..workload import models


def platforms(incomplete: str) -> list[str]:
    """Presets of platforms that begin so."""
    return _beginning(incomplete, presets())


def workloads(incomplete: str) -> list[str]:
    """Presets of models that begin so."""
    return _beginning(incomplete, models())


def backends(incomplete: str) -> list[str]:
    """Network backends that begin so."""
    return _beginning(incomplete, list(network.NAMES))


def collectives(incomplete: str) -> list[str]:
    """Kinds of collectives that begin so."""
    return _beginning(incomplete, list(nccl.OPERATIONS))


def studies(incomplete: str) -> list[str]:
    """Studies that begin so."""
    from ..studies import STUDIES

    return _beginning(incomplete, [entry.name for entry in STUDIES])


def _beginning(incomplete: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
