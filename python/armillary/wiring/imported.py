"""A file of another program as a platform file: which format it is, and what is made of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import documents
from ..errors import InputError, Problem
from . import (
    iblinkinfo,
    infiniband,
    infragraph,
    nccl_xml,
    nvidia_smi,
    rocm_smi,
    slurm,
    slurm_blocks,
)
from .assumed import Assumed
from .node import Node
from .unused_devices import without_cards, without_dead_ends
from .written import platform_file

_Reader = Callable[[str, str, Assumed], Node]
_TEXTS: dict[str, tuple[Callable[[str], bool], _Reader, str]] = {
    "rocm-smi": (rocm_smi.is_topo, rocm_smi.read, rocm_smi.HELP),
    "nvidia-smi": (nvidia_smi.is_topo, nvidia_smi.read, nvidia_smi.HELP),
    "infragraph": (infragraph.is_infragraph, infragraph.read, infragraph.HELP),
    "infiniband": (infiniband.is_fabric, infiniband.read, infiniband.HELP),
    "iblinkinfo": (iblinkinfo.is_fabric, iblinkinfo.read, iblinkinfo.HELP),
    "slurm-blocks": (slurm_blocks.is_blocks, slurm_blocks.read, slurm_blocks.HELP),
    "slurm": (slurm.is_slurm, slurm.read, slurm.HELP),
}
"""Formats of text: whether a text is of one, its reader, what it is. The first one that fits is
taken."""
FORMATS = {"nccl": nccl_xml.HELP, **{name: help_ for name, (_, _, help_) in _TEXTS.items()}}
"""Formats by name, with what each is."""
MOST_NODES = 4096
_ROCM = re.compile(r"ROCm System Management|AMDSMI|(Weight|Hops|Link Type) between two GPUs|XGMI")
_BLACKWELL = 100
_TRAYS = (
    "Nodes are joined by their network cards only. In a rack of GB200 or GB300 the NVSwitches join "
    "the trays, too, which the file of one tray does not show: the presets gb200-nvl72-8r and "
    "gb300-nvl72-8r have that."
)
_RCCL = (
    "rocm-smi --showtopo, or the file that RCCL writes to NCCL_TOPO_DUMP_FILE; it has the xGMI "
    "links and PCIe"
)


@dataclass(frozen=True)
class Imported:
    """An imported network: the text of its platform file, format, numbers, and what was assumed:
    name, value, source."""

    text: str
    format: str
    npus: int
    links: int
    remarks: Sequence[str]
    assumed: Sequence[tuple[str, str, str]]
    warnings: Sequence[str] = ()


def import_file(
    path: str | os.PathLike[str],
    *,
    name: str,
    assumed: Assumed,
    format_: str | None = None,
    nodes: int = 1,
    rails: bool = False,
    cards: Sequence[str] = (),
) -> Imported:
    """Reads a file and makes the platform `name` of it, with `nodes` of the node that it describes.

    The network cards of nodes are joined by one switch, or with `rails` by one for each card;
    `cards` names those that are used. Raises `InputError` listing every problem."""
    file = os.fspath(path)
    content = documents.read_bytes(path, _allowed())
    node, found = _read(content, file, format_, assumed)
    if problems := [*_several(node, file, found, nodes), *_cards(node, cards)]:
        raise InputError(problems)
    if cards:
        without_cards(node, {port.name for port in node.ports} - set(cards))
    elif node.far and nodes > 1:
        left_out = ", ".join(node.far)
        node.remarks.append(f"Left out, for they share no PCIe switch with a GPU: {left_out}.")
        without_cards(node, node.far)
    if nodes > 1 and _is_tray(node, assumed):
        node.warnings.append(_TRAYS)
    without_dead_ends(node, {port.name for port in node.ports} if nodes > 1 else ())
    made = f"Imported by Armillary from {Path(file).name}"
    text = platform_file(node, name, made, assumed, nodes, rails)
    if problems := assumed.problems():
        raise InputError(problems)
    values = [(key, value, source) for key, (value, source) in assumed.used.items()]
    links = text.count("- {between:")
    return Imported(text, found, nodes * len(node.npus), links, node.remarks, values, node.warnings)


def _is_tray(node: Node, assumed: Assumed) -> bool:
    """Whether a node is a tray of a rack: its GPUs have a Grace, and are at an NVSwitch."""
    product = assumed.product
    if product is not None and product.grace and product.capability >= _BLACKWELL:
        return True
    return "nvswitch" in node.switches and any(link.kind == "c2c" for link in node.links)


def _read(content: bytes, file: str, format_: str | None, assumed: Assumed) -> tuple[Node, str]:
    if format_ == "nccl" or (format_ is None and nccl_xml.is_nccl(content)):
        return nccl_xml.read(content, file, assumed), "nccl"
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        place = f"byte {error.start}"
        raise InputError([Problem(file, place, "is not UTF-8 text", _allowed())]) from None
    if format_ is None and _ROCM.search(text) and not rocm_smi.is_topo(text):
        raise InputError([Problem(file, "", "is a table of rocm-smi that is not read", _RCCL)])
    for name, (fits, read, _) in _TEXTS.items():
        if format_ == name or (format_ is None and fits(text)):
            return read(text, file, assumed), name
    raise InputError([Problem(file, "", "is in no format that can be imported", _allowed())])


def _allowed() -> str:
    return "; ".join([*FORMATS.values(), "with --system a network file of ASTRA-sim 1.0"])


def _several(node: Node, file: str, found: str, nodes: int) -> list[Problem]:
    if nodes == 1:
        return []
    if found in ("infragraph", "slurm", "slurm-blocks", "infiniband", "iblinkinfo"):
        return [Problem(file, f"--nodes {nodes}", "the file has all nodes", "--nodes 1")]
    if not node.ports:
        message = "the file has no network card that could join nodes"
        return [Problem(file, f"--nodes {nodes}", message, "--nodes 1")]
    if nodes * len(node.npus) > 1 << 17:
        return [Problem(file, f"--nodes {nodes}", "too many NPUs", f"{1 << 17:,} NPUs")]
    return []


def _cards(node: Node, cards: Sequence[str]) -> list[Problem]:
    known = [port.name for port in node.ports]
    return [
        Problem(
            "", f"--cards {card}", "no such network card", ", ".join(known) or "none: leave it out"
        )
        for card in cards
        if card not in known
    ]
