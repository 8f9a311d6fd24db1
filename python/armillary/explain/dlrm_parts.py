"""The parts of a recommendation model's step, and its roofline, from a report.

Here: what each part costs, and Eq. 1 of Neo and ZionEX (Mudigere et al., ISCA 2022, appendix B):

    forward  = max(bottom MLP, lookup + all-to-all) + interaction + top MLP
    backward = max(top MLP + interaction + max(all-to-all + update, bottom MLP), all-reduces)
    step     = forward + backward

Not here: what a step consists of (`workload/dlrm_flow.py`; `trainer/ranges.py` gives recorded steps
the same names, so that both kinds of reports can be read).

A part's cost is the time of a rank that is charged to it, mean over the ranks, so that costs and
idle time add up to the step. The components of Eq. 1 are the times of the operations themselves,
next to others or not, mean over the ranks. Times of exchanges contain what ranks wait for each
other."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..schema import Operation, Report

_LOCAL = ("compute", "host")
_PARTS = (
    ("data", r"data"),
    ("inputs", r"inputs\..*"),
    ("lookup", r"embedding\.(forward|collect|spread)"),
    ("bottom MLP", r"bottom\..*"),
    ("interaction", r"interaction\..*|cross\..*"),
    ("top MLP", r"top\..*"),
    ("loss", r"loss\..*"),
    ("update", r"embedding\.weight_gradient"),
    ("optimizer", r"optimizer|.*\.optimizer"),
    ("exchanges", r"exchange\..*"),
    ("scores", r"scores"),
    ("trainer", r"trainer|host"),
)
"""Parts of a step in their order, and the names of their operations."""
OTHER, IDLE = "other", "idle"

_COMPONENTS = {
    "bottom_forward": r"bottom\..*\.forward",
    "bottom_backward": r"bottom\..*_gradient",
    "top_forward": r"top\..*\.forward",
    "top_backward": r"top\..*_gradient",
    "interaction_forward": r"interaction\.forward",
    "interaction_backward": r"interaction\.input_gradient",
    "lookup": r"embedding\.forward",
    "update": r"embedding\.weight_gradient",
}
_EXCHANGES = {
    "all_to_all_forward": r"embedding\.forward\..*",
    "all_to_all_backward": r"embedding\.input_gradient\..*",
    "all_reduce": r"(bottom|top|cross|mlp)\..*weight_gradient\..*",
}


@dataclass(frozen=True, slots=True)
class Roofline:
    """Eq. 1 for one step, ns; and how long each resource alone needs."""

    components: Mapping[str, float]
    forward_ns: float
    backward_ns: float
    samples: int
    """In the step; 0 where that is unknown."""

    @property
    def step_ns(self) -> float:
        """The step by Eq. 1."""
        return self.forward_ns + self.backward_ns

    @property
    def resources(self) -> dict[str, float]:
        """Resource -> time of the step that it needs by itself, ns."""
        c = self.components
        compute = sum(
            c[f"{part}_{way}"]
            for part in ("bottom", "interaction", "top")
            for way in ("forward", "backward")
        )
        return {
            "memory bandwidth of tables": c["lookup"] + c["update"],
            "compute": compute,
            "all-to-all": c["all_to_all_forward"] + c["all_to_all_backward"],
            "all-reduce": c["all_reduce"],
        }

    @property
    def binding(self) -> str:
        """The resource that needs most of the step."""
        found = self.resources
        return max(found, key=lambda name: found[name])

    def as_dict(self) -> dict[str, Any]:
        """As data, with samples per second where the step's samples are known."""
        rates = {name: self._rate(ns) for name, ns in self.resources.items()}
        return {
            **asdict(self),
            "step_ns": self.step_ns,
            "samples_per_second": self._rate(self.step_ns),
            "resources_ns": self.resources,
            "resources_samples_per_second": rates,
            "binding": self.binding,
        }

    def _rate(self, ns: float) -> float | None:
        return self.samples / (ns * 1e-9) if self.samples and ns else None


def is_dlrm(report: Report) -> bool:
    """Whether a report is of a recommendation model, generated or recorded."""
    names = {row["name"] for row in report["operations"]}
    return {"embedding.forward", "embedding.weight_gradient"} <= names


def parts(report: Report) -> dict[str, float]:
    """Part -> its cost in a step, ns; with idle time they add up to the step."""
    passes, found = _passes(report), dict.fromkeys((name for name, _ in _PARTS), 0.0)
    found[OTHER] = 0.0
    for row in report["operations"]:
        found[_part(row)] += row["cost_ns"] / report["ranks"] / passes
    step = report["step_time_ns"] / passes
    found[IDLE] = max(0.0, step - sum(found.values()))
    return found


def roofline(report: Report, samples: int = 0) -> Roofline:
    """Eq. 1 from a report's operations; `samples` of a step, where the report does not say."""
    c = {name: _time(report, pattern, local=True) for name, pattern in _COMPONENTS.items()}
    c |= {name: _time(report, pattern, local=False) for name, pattern in _EXCHANGES.items()}
    forward = max(c["bottom_forward"], c["lookup"] + c["all_to_all_forward"])
    forward += c["interaction_forward"] + c["top_forward"]
    after = max(c["all_to_all_backward"] + c["update"], c["bottom_backward"])
    backward = max(c["top_backward"] + c["interaction_backward"] + after, c["all_reduce"])
    return Roofline(c, forward, backward, samples or _samples(report))


def _samples(report: Report) -> int:
    summary: Any = report["config"]["workload"].get("summary") or {}
    return int(summary.get("batch") or 0)


def _passes(report: Report) -> int:
    counts = [r["count"] for r in report["operations"] if r["name"] == "embedding.forward"]
    return max(1, round(min(counts, default=1) / report["ranks"]))


def _part(row: Operation) -> str:
    if row["kind"] not in _LOCAL:
        return "exchanges"
    if row["name"].endswith(".optimizer"):
        return "optimizer"
    return next((n for n, p in _PARTS if re.fullmatch(p, row["name"])), OTHER)


def _rows(report: Report, pattern: str, local: bool) -> Iterator[Operation]:
    for row in report["operations"]:
        if (row["kind"] in _LOCAL) == local and re.fullmatch(pattern, row["name"]):
            yield row


def _time(report: Report, pattern: str, local: bool) -> float:
    total = sum(row["total_ns"] for row in _rows(report, pattern, local))
    return total / report["ranks"] / _passes(report)
