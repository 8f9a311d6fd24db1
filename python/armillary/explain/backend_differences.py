"""Why one network model has another step time than the next: what each cause is worth.

A model is simulated again without its causes, one after the other: `packet` without losses, then
also without windows, then also without headers; `link` without storing whole messages. The
differences of these step times, and what then separates the models, sum to the difference of the
step times. As one cause after the other is removed, a time that two causes make together belongs to
the first one. Not here: the simulations (`api.ladder`), how it looks (`backend_comparison.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..report import packets
from ..schema import Report

CAUSES = {
    "simulator": "the simulator itself: the part in which it differs from packet",
    "losses": "buffers: packets dropped, sent again and waited for, marks, pauses",
    "windows": "slow start, windows and congestion control of connections",
    "hosts": "the injection latency of each message",
    "headers": "headers and acknowledgements on the links",
    "packets": "packets that are stored whole at each hop and wait in order of arrival",
    "store and forward": "messages that are stored whole at each hop",
    "contention": "messages that meet on links",
    "network model": "the network model",
}
"""Causes, in the order in which they are removed, and what they mean."""

_UNLIMITED = "1 TB"
"""More than a run sends through a port."""
_HALF_PS = 5e-4


@dataclass(frozen=True, slots=True)
class Trial:
    """A cause, and the keys of the platform that remove it."""

    cause: str
    settings: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Run:
    """The step time of a model, ns, and those after each of its causes was removed in turn."""

    backend: str
    step_ns: float
    without: Sequence[tuple[str, float]] = ()
    outside: bool = False
    """Whether a simulator in another process did it."""

    @property
    def least(self) -> float:
        """Without any of them."""
        return self.without[-1][1] if self.without else self.step_ns

    @property
    def parts(self) -> dict[str, float]:
        """Time that each cause explains."""
        before, found = self.step_ns, {}
        for cause, after in self.without:
            found[cause], before = before - after, after
        return found


def trials(report: Report) -> list[Trial]:
    """Trials that remove causes from a run, in order. Each also removes the causes of the trials
    before it."""
    config = report["config"]
    network = config["platform"].get("network") or {}
    if config["backend"] == "packet":
        return list(_of_packets(report, network.get("packet") or {}))
    if config["backend"] == "link":
        link = network.get("link") or {}
        if link.get("switching") == "store_and_forward":
            return [Trial("store and forward", {"network.link.switching": "cut_through"})]
    return []


def _of_packets(report: Report, given: Mapping[str, Any]) -> Iterator[Trial]:
    found = packets.of(report)
    if found and (found["drops"] or found["marks"] or found["pauses"]):
        yield Trial("losses", dict(_room(given)))
    rdma = given.get("transport") == "rdma"
    yield Trial(
        "windows",
        {
            "network.packet.rdma.window": "1 GiB",
            "network.packet.rdma.congestion_control": "none",
        }
        if rdma
        else {
            "network.packet.tcp.window": "1 GiB",
            "network.packet.tcp.initial_window": "1000000",
        },
    )
    if given.get("injection_latency_ps"):
        yield Trial("hosts", {"network.packet.injection_latency": "0 ns"})
    yield Trial("headers", {"network.packet.headers": "0 B", "network.packet.framing": "0 B"})


def _room(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Settings of ports that neither drop, mark nor pause."""
    buffer = given.get("buffer") or {}
    for key in ("per_port", "shared"):
        if buffer.get(f"{key}_bytes") is not None:
            yield f"network.packet.buffer.{key}", _UNLIMITED
    for key, ends in (("marking", ("from", "to")), ("pause", ("above", "below"))):
        if given.get(key):
            yield from ((f"network.packet.{key}.{end}", _UNLIMITED) for end in ends)


def split(run: Run, first: Run, runs: Sequence[Run]) -> dict[str, float]:
    """The difference of `run` from `first` by cause, ns, out of `runs`, which are all there are."""
    known = {each.backend: each for each in runs}
    ours, theirs = _part(run, known), _part(first, known)
    found = {cause: ours.get(cause, 0.0) - theirs.get(cause, 0.0) for cause in CAUSES}
    for cause, ns in _between(_least(run, known), _least(first, known), known).items():
        found[cause] += ns
    return {cause: ns for cause, ns in found.items() if abs(ns) >= _HALF_PS}


def _least(run: Run, known: Mapping[str, Run]) -> Run:
    """The run without its causes; for another simulator of packets, that of `packet`."""
    return known["packet"] if _outside(run, known) else run


def _part(run: Run, known: Mapping[str, Run]) -> dict[str, float]:
    if _outside(run, known):
        packet = known["packet"]
        return {"simulator": run.step_ns - packet.step_ns} | packet.parts
    return run.parts


def _outside(run: Run, known: Mapping[str, Run]) -> bool:
    return run.outside and "packet" in known


def _between(run: Run, first: Run, known: Mapping[str, Run]) -> dict[str, float]:
    """Differences between two models that are left after everything that can be removed."""
    rest, both = run.least - first.least, {run.backend, first.backend}
    if len(both) == 1:
        return {}
    fluid = {"analytical", "link", "flow"}
    if both <= fluid:
        return {"contention": rest}
    if both <= fluid | {"packet"} and "flow" in known:
        sign = 1 if run.backend == "packet" else -1
        whole = sign * (known["packet"].least - known["flow"].least)
        return {"packets": whole, "contention": rest - whole}
    return {"network model": rest}
