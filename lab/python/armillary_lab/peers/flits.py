"""The flit network against Garnet and BookSim2: `python -m armillary_lab.peers.flits FILE`.

FILE has the schema of the reference files of one of them: its keys tell which kind it is. Every
case is repeated, and each figure is printed with what FILE expects and how far it is off. Cases run
on all processors; the output is the same on one. The exit code is 1 if a figure is beyond its
tolerance.

Garnet:

- collectives (`mode: allreduce`, `mode: alltoall_ring`, `short_4x4x4`): the number of cycles,
  exactly;
- synthetic traffic (`mode: synth`): the mean latency in the network within 2.5 %, within 6 % where
  it is 1.3 times that of an empty network (the spread over seeds, as for BookSim2), and within 8 %
  where packets wait for more than two cycles to enter it;
- throughput by virtual channels (`V`, `accepted_flits`): within 0.2 %;
- deadlocks (`outcome`): printed, with what came of ours.

BookSim2 (more in `armillary_lab.peers.booksim`):

- latency of an empty network (`min_latency_by_link_hops`): exactly;
- batches (`batch_cycles`): exactly where they are deterministic, else the mean of 12 seeds within
  7 %;
- latency over a load (`curves`), the mean of 4 seeds: within 2.5 % up to 0.6 of the saturation
  load, within 6 % up to 0.9 of it (the spread over seeds of BookSim2), or within three standard
  deviations of our own seeds where that is more;
- saturation (`saturation_bracket`), by bisection: the median of seeds within 3 % of the bracket;
- spread over seeds (`lat_acc`): the mean within the spread.

Latencies are cycles, throughput is in flits per node and cycle."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from armillary import documents
from armillary.errors import InputError, Problem

from .._peers import garnet_all_reduce, garnet_all_to_all, garnet_synthetic
from . import booksim
from .figures import Case, Figure, line

if TYPE_CHECKING:
    from .._peers import GarnetFound, GarnetRouter

ALLOWED = (
    "a file of reference runs of Garnet or BookSim2, with the keys that the documentation of this "
    "module lists"
)
BUFFER, DELAY = 5000, 10
"""Flits of a virtual channel and cycles between two steps, where a file names none."""
LOADED = 1.3
"""Latency over that of an empty network from which seeds differ."""
CROWDED = 2.0
"""Cycles that packets wait on average where the network is near its limit."""


def check(file: str) -> int:
    """Runs and prints all cases of a file; the exit code. Progress is on stderr.

    Raises:
        InputError: it cannot be read, or a case lacks a key or has a value that cannot be.
    """
    wrong = total = 0
    found = list(cases(read(file)))
    with ThreadPoolExecutor(os.cpu_count()) as workers:
        runs = [workers.submit(run, case) for case, run in found]
        try:
            for at, ((case, _), done) in enumerate(zip(found, runs, strict=True)):
                try:
                    rows = done.result()
                    name = title(case)
                except (KeyError, ValueError, TypeError, OverflowError) as error:
                    raise InputError([Problem(file, f"case {at}", _reason(error))]) from None
                sys.stderr.write(f"case {at + 1} of {len(found)}: {name}\n")
                sys.stdout.write(f"{name}\n")
                for row in rows:
                    sys.stdout.write(f"  {line(row)}\n")
                judged = [row for row in rows if row.tolerance is not None]
                total += len(judged)
                wrong += sum(not row.ok for row in judged)
                sys.stdout.flush()
        finally:
            workers.shutdown(cancel_futures=True)
    sys.stdout.write(f"{total - wrong} of {total} figures within tolerance\n")
    return 1 if wrong else 0


def _reason(error: Exception) -> str:
    return f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)


def cases(file: Mapping[str, Any]) -> Iterator[tuple[Case, Callable[[Case], list[Figure]]]]:
    """The cases of a file, each with what runs it and with what the file says of all of them.

    Raises:
        InputError: the file has no known cases, or one that is not known.
    """
    common = {"router": file["router"]} if "router" in file else {}
    lists = [file.get(name, ()) for name in ("cases", "short_4x4x4", "curves")]
    if not all(isinstance(cases, list | tuple) for cases in lists) or not any(lists):
        raise InputError([Problem("", "cases", "no case of a known kind", ALLOWED)])
    for at, case in enumerate(case for cases in lists for case in cases):
        run = _RUNS.get(_kind(case)) if isinstance(case, dict) else None
        if run is None:
            raise InputError([Problem("", f"case {at}", "no case of a known kind", ALLOWED)])
        yield {**common, **case}, run


def _kind(case: Case) -> str:
    if "mode" in case:
        return str(case["mode"])
    if "outcome" in case:
        return "deadlock"
    if "accepted_flits" in case:
        return "turnaround"
    return "allreduce" if "pkg_pkt" in case else booksim.kind(case)


def _all_reduce(case: Case) -> list[Figure]:
    local, vertical, horizontal = (int(size) for size in case["dims"])
    rings = _rings(case, local * vertical * horizontal > local)
    found = garnet_all_reduce(
        {
            "local": local,
            "vertical": vertical,
            "horizontal": horizontal,
            "local_rings": rings[0],
            "vertical_rings": rings[1],
            "horizontal_rings": rings[2],
            "flit": int(case["flit"]),
            "local_width": int(case["tile_width"]),
            "package_width": int(case["pkg_width"]),
            "local_latency": int(case["local_lat"]),
            "package_latency": int(case["pkg_lat"]),
            "interface_latency": int(case["ext_lat"]),
            "local_packet": int(case["local_pkt"]),
            "package_packet": int(case["pkg_pkt"]),
            "bytes": int(case["bytes"]),
            "chunks": int(case["chunks"]),
            "enhanced": int(case["enhanced"]),
            "delay": DELAY,
            "channels": int(case["vcs"]),
            "buffer": int(case.get("buf", BUFFER)),
            "router_latency": 1,
        }
    )
    return _cycles(case, found)


def _rings(case: Case, has_packages: bool) -> tuple[int, int, int]:
    """Unidirectional rings of each dimension: those between packages come in pairs."""
    if "rings" in case:
        rings = case["rings"]
        return int(rings["local"]), 2 * int(rings["vertical"]), 2 * int(rings["horizontal"])
    vnets = int(case["vnets"])
    if not has_packages:
        return vnets, 0, 0
    return vnets // 5, 2 * (vnets // 5), 2 * (vnets // 5)


def _all_to_all(case: Case) -> list[Figure]:
    found = garnet_all_to_all(
        {
            "npus": int(case["P"]),
            "both_ways": int(case["bidir"]),
            "bytes": int(case["bytes"]),
            "flit": int(case["flit"]),
            "packet": int(case["pkt"]),
            "link_latency": int(case["link_lat"]),
            "interface_latency": int(case["ext_lat"]),
            "channels": int(case["vcs"]),
            "buffer": int(case["buf"]),
            "router_latency": 1,
        }
    )
    return _cycles(case, found)


def _cycles(case: Case, found: GarnetFound) -> list[Figure]:
    rows = [Figure("cycles", float(case["sim_cycles"]), found["cycles"], 0.0)]
    if "router_traversals" in case:
        expected = float(case["router_traversals"])
        rows.append(Figure("traversals", expected, found["traversals"], 0.0))
    return rows


def _synthetic(case: Case) -> list[Figure]:
    flits = -(-int(case["pkt_bytes"]) // int(case["flit_bytes"]))
    found = garnet_synthetic(
        {
            "k": int(case["k"]),
            "n": int(case["n"]),
            "wraps": int(case["topo"] != "mesh"),
            "pattern": str(case["pattern"]),
            "load": float(case["offered"]),
            "flits": flits,
            "cycles": int(case["cycles"]),
            "link_latency": int(case["link_lat"]),
            "interface_latency": int(case["ext_lat"]),
            "channels": int(case["vcs"]),
            "buffer": int(case["buf"]),
            "router_latency": int(case["router_lat"]),
        }
    )
    waits = float(case["pkt_queue_lat"])
    loaded = float(case["pkt_net_lat"]) > LOADED * float(case["zero_load_net_latency_formula_mean"])
    tolerance = 0.08 if waits > CROWDED else 0.06 if loaded else 0.025
    return [
        Figure("latency", float(case["pkt_net_lat"]), found["network_latency"], tolerance),
        Figure("source wait", waits, found["queue_latency"], None),
    ]


def _turnaround(case: Case) -> list[Figure]:
    cycles = 20_000
    found = garnet_synthetic(
        {
            "k": 8,
            "n": 1,
            "wraps": 1,
            "pattern": "neighbor",
            "load": 1.0,
            "flits": 1,
            "cycles": cycles,
            "link_latency": int(case["link_lat"]),
            "interface_latency": int(case["ext_lat"]),
            "channels": int(case["V"]),
            "buffer": 4,
            "router_latency": 1,
        }
    )
    accepted = found["packets"] / 8 / cycles
    return [Figure("accepted", float(case["accepted_flits"]), accepted, 0.002)]


def _deadlock(case: Case) -> list[Figure]:
    """Traffic at a load on a ring or a torus; an all-to-all that a sentence describes."""
    common: GarnetRouter = {
        "channels": int(case["vcs"]),
        "buffer": int(case["buf"]),
        "router_latency": 1,
    }
    if "offered" in case:
        torus = re.search(r"torus (\d+)x(\d+)", str(case["topology"]))
        found = garnet_synthetic(
            {
                **common,
                "interface_latency": 1,
                "k": int(torus[1]) if torus else 8,
                "n": 2 if torus else 1,
                "wraps": 1,
                "pattern": str(case["traffic"]),
                "load": float(case["offered"]),
                "flits": int(case["packet_flits"]),
                "cycles": 20_000,
                "link_latency": 1,
            }
        )
    else:
        size = re.search(r"(\d+) KB per node", str(case["traffic"]))
        if size is None:
            raise KeyError("traffic")
        found = garnet_all_to_all(
            {
                **common,
                "interface_latency": 1,
                "npus": 8,
                "both_ways": 0,
                "bytes": 1024 * int(size[1]),
                "flit": 128,
                "packet": 512,
                "link_latency": 90,
            }
        )
    ends = re.search(r"finishes at cycle (\d+)", str(case["outcome"]))
    expected = float(ends[1]) if ends else float("nan")
    return [Figure("cycles", expected, found["cycles"], 0.0 if ends else None)]


_RUNS: dict[str, Callable[[Case], list[Figure]]] = {
    "allreduce": _all_reduce,
    "alltoall_ring": _all_to_all,
    "synth": _synthetic,
    "turnaround": _turnaround,
    "deadlock": _deadlock,
    **booksim.RUNS,
}


def title(case: Case) -> str:
    """Distinctive settings of a case, in a line."""
    if booksim.kind(case):
        return booksim.title(case)
    if "id" in case:
        return f"{case['id']} at {case['offered']}"
    left_out = ("sim_cycles", "finished", "done_frac", "formula", "pkt_net_lat", "pkt_queue_lat")
    return " ".join(f"{key}={value}" for key, value in case.items() if key not in left_out)


def read(file: str) -> dict[str, Any]:
    """A file.

    Raises:
        InputError: it cannot be read, or is not an object.
    """
    try:
        found = json.loads(documents.content(file))
    except (OSError, ValueError) as error:
        raise InputError([Problem(file, "", f"cannot be read: {error}", ALLOWED)]) from None
    if not isinstance(found, dict):
        raise InputError([Problem(file, "", "is not an object", ALLOWED)])
    return found


def main(arguments: list[str]) -> int:
    """Prints all cases of a file. Returns 0, 1 beyond a tolerance, or 2 for bad input."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m armillary_lab.peers.flits FILE.json\n")
        return 2
    try:
        return check(arguments[0])
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
