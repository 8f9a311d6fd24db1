"""The packet backend against ns-3 and htsim: `python -m armillary_lab.peers.packets FILE`.

FILE is a JSON list of runs: all-reduces of hosts at one switch, over TCP. Every run is repeated.
Each figure is printed with what FILE expects and how far it is off. The exit code is 1 if a figure
is beyond its tolerance:

- without losses: the time within 2 %, and no losses here either;
- with losses: drops, retransmits and timeouts within 25 % (or 12, where chance decides), and the
  time within 25 %, or of the same size where more than 1,000 timeouts make it.

Keys of ns-3's runs: `algo` (`a2a`: direct, `dbt`: double binary tree), `D` (bytes), `buf` (bytes of
a port), `mtu`, `cc`, `win`, `iw`, `delack`, `sack`, `order`, `seed`, `lat_us`, `C` (chunks), `P`
(chunks under way), and the results `T_us`, `drops`, `retx`, `rto`. Keys of htsim's runs: `N`, `D`,
`buf`, `mss`, `stagger` (the order), `T_us`, `drops`, `retx`, `rto`. htsim sends whole packets of
`mss` and 40 bytes of headers. A time of 0 means that its run did not end in the time given. Its TCP
is one of its own, so runs in which connections meet (all orders but 1) are printed and not
judged."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from armillary import documents
from armillary.errors import InputError, Problem

from .._peers import packet_all_reduce

if TYPE_CHECKING:
    from .._peers import PacketAllReduce

PS_PER_US = 1_000_000
HEADER, FRAMING = 40, 2
"""IP and TCP headers, and the point-to-point protocol's, bytes."""
CHANCE = 12
"""Losses that may differ by chance."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of a run."""

    name: str
    expected: float
    found: float
    allowed: str
    """Tolerance of the quantity; empty if it is not judged."""
    ok: bool

    @property
    def deviation(self) -> str:
        """How far it is off, percent; the difference where nothing is expected."""
        if self.expected:
            return f"{100 * (self.found / self.expected - 1):+.2f} %"
        return f"{self.found - self.expected:+g}"


def case(run: Mapping[str, Any]) -> PacketAllReduce:
    """The settings of `packet_all_reduce` for a run of a file.

    Raises:
        KeyError: a key is missing.
    """
    tree = run.get("algo", "a2a") == "dbt"
    htsim = "mss" in run
    hosts, size = int(run.get("N", 128)), int(run["D"])
    mtu = int(run["mss"]) + HEADER if htsim else int(run["mtu"])
    if htsim:
        packets = -(-size // hosts // int(run["mss"]))
        size = packets * int(run["mss"]) * hosts
    return {
        "hosts": hosts,
        "bytes": size,
        "buffer": int(run["buf"]),
        "mtu": mtu,
        "header": HEADER,
        "framing": 0 if htsim else FRAMING,
        "control": str(run.get("cc", "newreno")),
        "window": int(run.get("win", 500_000)),
        "initial_window": int(run.get("iw", 10)),
        "ack_every": int(run.get("delack", 1 if htsim else 2)),
        "sack": int(run.get("sack", 1)),
        "order": int(run["stagger" if htsim else "order"]),
        "seed": int(run.get("seed", 1)),
        "chunks": int(run["C"]) if tree else 0,
        "open_chunks": int(run["P"]) if tree else 0,
        "bandwidth": 12_500_000_000,
        "latency_ps": round(float(run.get("lat_us", 0.5)) * PS_PER_US),
        "rto_min_ps": 50_000 * PS_PER_US,
        "ack_delay_ps": 1_000 * PS_PER_US,
    }


def figures(run: Mapping[str, Any], found: Mapping[str, float]) -> Iterator[Figure]:
    """Time, drops, retransmits and timeouts of a run."""
    time, drops, timeouts = float(run["T_us"]), int(run["drops"]), int(run["rto"])
    judged = "mss" not in run or run["stagger"] == 1
    if drops == 0:
        ok, allowed = abs(found["time_us"] / time - 1) <= 0.02, "2 %"
    elif timeouts > 1000:
        ratio = found["time_us"] / time if time else 0.0
        ok, allowed = 0.5 <= ratio <= 2, "factor 2"
    else:
        ok, allowed = time > 0 and abs(found["time_us"] / time - 1) <= 0.25, "25 %"
    yield Figure("time, us", time, found["time_us"], allowed if judged else "", ok or not judged)
    for name, key in (("drops", "drops"), ("retransmits", "retx"), ("timeouts", "rto")):
        expected = int(run[key])
        most = max(0.25 * expected, CHANCE) if drops else 0
        allowed = ("25 %" if drops else "none") if judged else ""
        ok = abs(found[name] - expected) <= most or not judged
        yield Figure(name, expected, found[name], allowed, ok)


def name(run: Mapping[str, Any]) -> str:
    """Distinctive settings of a run, in a line."""
    keys = (
        "algo",
        "D",
        "buf",
        "mtu",
        "mss",
        "cc",
        "iw",
        "delack",
        "sack",
        "order",
        "stagger",
        "seed",
    )
    shown = [f"{key}={run[key]}" for key in keys if key in run]
    if run.get("algo") == "dbt":
        shown += [f"C={run['C']}", f"P={run['P']}"]
    return " ".join([str(run.get("tool", "")), *shown])


def read(file: str) -> list[dict[str, Any]]:
    """The runs of a file.

    Raises:
        InputError: it cannot be read, or is not a list of runs.
    """
    allowed = "a JSON list of runs, with the keys that this module's documentation lists"
    try:
        runs = json.loads(documents.content(file))
    except (OSError, ValueError) as error:
        raise InputError([Problem(file, "", f"cannot be read: {error}", allowed)]) from None
    if not isinstance(runs, list) or not all(isinstance(run, dict) for run in runs):
        raise InputError([Problem(file, "", "is not a list of runs", allowed)])
    return runs


def main(arguments: list[str]) -> int:
    """Prints all runs of a file. Returns 0, 1 beyond a tolerance, or 2 for bad input."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m armillary_lab.peers.packets FILE.json\n")
        return 2
    try:
        return check(arguments[0])
    except InputError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2


def check(file: str) -> int:
    """Runs and prints; the exit code.

    Raises:
        InputError: a run lacks a key, or has a value that cannot be.
    """
    wrong = total = 0
    for at, run in enumerate(read(file)):
        try:
            found = packet_all_reduce(case(run))
            rows = list(figures(run, found))
        except (KeyError, ValueError, TypeError, OverflowError) as error:
            missing = f"{error.args[0]} is missing" if isinstance(error, KeyError) else str(error)
            raise InputError([Problem(file, f"[{at}]", missing)]) from None
        sys.stdout.write(f"{name(run)}\n")
        for row in rows:
            verdict = "" if not row.allowed else "ok" if row.ok else "BEYOND"
            sys.stdout.write(
                f"  {row.name:<12} expected {row.expected:>12,.3f}  obtained {row.found:>12,.3f}"
                f"  {row.deviation:>12}  allowed {row.allowed or 'not judged':<10} {verdict}\n"
            )
        total += len(rows)
        wrong += sum(not row.ok for row in rows)
        sys.stdout.flush()
    sys.stdout.write(f"{total - wrong} of {total} figures within tolerance\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
