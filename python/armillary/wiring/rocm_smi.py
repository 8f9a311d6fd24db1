"""The tables of `rocm-smi --showtopo`: how each two GPUs of a node are joined.

`XGMI` over one hop is a link of its own, over more it passes other GPUs. `PCIE` passes the CPUs of
both, which the table of NUMA nodes names. There is no number of links and no speed, so the user
gives what two GPUs can send each other over all of their links (`--assume xgmi=...`), and what PCIe
and CPUs carry where GPUs need them. Source: ROCm/rocm_smi_lib, python_smi_tools/rocm_smi.py
(`showHwTopology` and what it calls), and tables of MI100, MI210, MI250X and MI300X."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from ..errors import InputError, Problem
from .assumed import Assumed
from .node import Link, Node

HELP = "the output of rocm-smi --showtopo"
MOST_GPUS = 256
_LISTED = 8
"""GPUs that a message names."""
_HEAD = re.compile(r"^=+ *([A-Z][\w ]+?) *=+$")
_TYPES, _HOPS = "Link Type between two GPUs", "Hops between two GPUs"
_NUMA = re.compile(r"^GPU ?\[?(\d{1,4})\]?\s*:\s*\(Topology\) Numa Node:\s*(-?\d{1,4})\s*$")
_ASKED = {
    "xgmi": ("50 GB/s", "what two GPUs can send each other over all their xGMI links"),
    "pcie": ("48 GB/s", "what a GPU's PCIe carries"),
    "cpu": ("64 GB/s", "what two CPUs can send each other"),
}
"""Values that the tables don't have: an example, and what each is."""


@dataclass
class _Tables:
    """Cells by title and both GPUs, and the NUMA node of each GPU."""

    cells: dict[str, dict[tuple[int, int], str]] = field(default_factory=dict)
    nodes: dict[int, int] = field(default_factory=dict)


def is_topo(text: str) -> bool:
    """Whether a text has the table of link types."""
    return any((head := _HEAD.match(line.strip())) and head[1] == _TYPES for line in _lines(text))


def read(text: str, file: str, assumed: Assumed) -> Node:
    """The node that the tables describe. Raises `InputError` listing every problem of the tables,
    or, where these are right, everything that they do not have and the node needs."""
    tables = _tables(text, file)
    types, hops = (tables.cells.get(title, {}) for title in (_TYPES, _HOPS))
    problems = [
        Problem(file, "", f"has no table {title!r}", HELP)
        for title, cells in ((_TYPES, types), (_HOPS, hops))
        if not cells
    ]
    if problems := problems or [*_faults(types, hops, file)]:
        raise InputError(problems)
    count = 1 + max(map(max, types))
    direct = [ends for ends in _pairs(count) if (types[ends], hops[ends]) == ("XGMI", "1")]
    slow = "PCIE" in types.values()
    places = tables.nodes if slow else {}
    if slow:
        problems += _without_cpu(count, places, file)
    elif apart := _apart(count, direct):
        message = f"no xGMI link of one hop leads to {_listed(apart)}"
        problems.append(Problem(file, _HOPS, message, "GPUs that are all joined"))
    cpus = sorted({cpu for gpu, cpu in places.items() if gpu < count and cpu >= 0})
    needed = {"xgmi": bool(direct), "pcie": slow, "cpu": len(cpus) > 1}
    speeds = {name: assumed.named(name) or "" for name, needs in needed.items() if needs}
    problems += [_asked(name, file) for name, speed in speeds.items() if not speed]
    if problems:
        raise InputError(problems)
    node = Node("tables of rocm-smi --showtopo", [f"GPU{each}" for each in range(count)])
    node.switches |= {f"cpu{cpu}": 2 for cpu in cpus}
    ends = {
        "xgmi": [(f"GPU{a}", f"GPU{b}") for a, b in direct],
        "pcie": [(f"GPU{each}", f"cpu{places[each]}") for each in range(count) if slow],
        "cpu": [(f"cpu{cpus[a]}", f"cpu{cpus[b]}") for a, b in _pairs(len(cpus))],
    }
    for name, speed in speeds.items():
        latency = assumed.latency(name)
        node.links += [Link(one, other, speed, latency, name) for one, other in ends[name]]
    node.remarks.append("Links of network cards are not in the tables of rocm-smi.")
    return node


def _lines(text: str) -> list[str]:
    return [line[:8192] for line in text.splitlines()]


def _tables(text: str, file: str) -> _Tables:
    found = _Tables()
    title, heads = "", list[int]()
    problems: list[Problem] = []
    for place, line in enumerate(_lines(text), 1):
        if head := _HEAD.match(line.strip()):
            title, heads = head[1], []
        elif numa := _NUMA.match(line.strip()):
            found.nodes[int(numa[1])] = int(numa[2])
        elif title in (_TYPES, _HOPS) and (words := line.split()):
            numbers = [_number(word) for word in words]
            if not heads:
                heads = [number for number in numbers if number is not None]
                if heads != list(range(len(words))) or not 1 <= len(heads) <= MOST_GPUS:
                    said = f"{line.strip()[:60]!r} are not the GPUs from GPU0 on"
                    problems.append(Problem(file, f"line {place}", said, "GPU0 GPU1 ..."))
                    title = ""
                else:
                    found.cells[title] = {}
            else:
                problems += _row(found.cells[title], heads, words, file, place)
    if problems:
        raise InputError(problems)
    return found


def _number(word: str) -> int | None:
    match = re.fullmatch(r"GPU(\d{1,4})", word)
    return int(match[1]) if match else None


def _row(
    cells: dict[tuple[int, int], str], heads: list[int], words: list[str], file: str, place: int
) -> Iterator[Problem]:
    name = _number(words[0])
    if name is None or name not in heads or (name, name) in cells:
        said = f"{words[0][:20]!r} is not a GPU of the table that has no row yet"
        yield Problem(file, f"line {place}", said, "a row for each GPU")
    elif len(words) != len(heads) + 1:
        said = f"{len(words) - 1} values for {len(heads)} GPUs"
        yield Problem(file, f"line {place}: GPU{name}", said, f"{len(heads)} values")
    else:
        cells |= {(name, head): word for head, word in zip(heads, words[1:], strict=True)}


def _faults(
    types: dict[tuple[int, int], str], hops: dict[tuple[int, int], str], file: str
) -> Iterator[Problem]:
    """Rows that are missing, words that are not known, directions that differ."""
    count = 1 + max(map(max, types))
    whole = True
    for title, cells in ((_TYPES, types), (_HOPS, hops)):
        if missing := [each for each in range(count) if (each, each) not in cells]:
            yield Problem(file, title, f"has no row of {_listed(missing)}", f"{count} rows")
            whole = False
        elif len(cells) != count * count:
            yield Problem(file, title, "has another number of GPUs", f"{count} GPUs")
            whole = False
    if not whole:
        return
    for one, other in _pairs(count):
        place = f"{_TYPES}: GPU{one}, GPU{other}"
        kind, number = types[one, other], hops[one, other]
        if kind not in ("XGMI", "PCIE"):
            yield Problem(file, place, f"{kind[:20]!r} is not a kind of link", "XGMI, PCIE")
        elif not re.fullmatch(r"[1-9]\d{0,3}", number):
            yield Problem(file, place, f"{number[:20]!r} hops", "1 or more")
        elif (kind, number) != (types[other, one], hops[other, one]):
            yield Problem(file, place, "differs from the other direction", "the same both ways")


def _pairs(count: int) -> Iterator[tuple[int, int]]:
    return ((one, other) for one in range(count) for other in range(one + 1, count))


def _asked(name: str, file: str) -> Problem:
    """A speed that the user has to give."""
    example, what = _ASKED[name]
    message = f"rocm-smi does not say {what}"
    return Problem(file, "", message, f"--assume '{name}={example}'")


def _without_cpu(count: int, places: dict[int, int], file: str) -> Iterator[Problem]:
    """GPUs without a NUMA node."""
    for each in range(count):
        if places.get(each, -1) < 0:
            message = f"has no NUMA node of GPU{each}, which PCIe joins to others"
            yield Problem(file, "Numa Nodes", message, HELP)


def _listed(gpus: list[int]) -> str:
    """`GPU1, GPU3`; the first few of many."""
    more = len(gpus) - _LISTED
    names = ", ".join(f"GPU{each}" for each in gpus[:_LISTED])
    return f"{names} and {more} more" if more > 0 else names


def _apart(count: int, links: list[tuple[int, int]]) -> list[int]:
    """GPUs that links do not lead to from GPU 0."""
    reached, open_ = {0}, [0]
    near: dict[int, list[int]] = {}
    for one, other in links:
        near.setdefault(one, []).append(other)
        near.setdefault(other, []).append(one)
    while open_:
        for each in near.get(open_.pop(), ()):
            if each not in reached:
                reached.add(each)
                open_.append(each)
    return [each for each in range(count) if each not in reached]
