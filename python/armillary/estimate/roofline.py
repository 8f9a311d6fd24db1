"""The least time of a training step of a recommendation model, from the times of its parts.

Model (Mudigere et al., Neo and ZionEX, ISCA 2022, Appendix B, Eq. 1 and Fig. 18):

    forward  = max(bottom, lookup + all_to_all) + interaction + top
    backward = max(top + interaction + max(all_to_all + update, bottom), top and bottom all_reduce)
    total    = forward + backward

The parts may be estimates (`plan/roofline.py`), simulated or measured
(`explain/dlrm_parts.py`). What distributes the inputs is not
in the equation: it runs next to the top MLP of the batch before."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import Any

from ..schema import Roofline


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParts:
    """Times of the parts of a step on a rank, all in one unit."""

    bottom_forward: float = 0.0
    lookup: float = 0.0
    """Lookup and pooling of embedding rows."""
    all_to_all_forward: float = 0.0
    """Exchange of pooled rows; with tables sharded by rows, their reduce-scatter."""
    interaction_forward: float = 0.0
    top_forward: float = 0.0
    top_backward: float = 0.0
    interaction_backward: float = 0.0
    all_to_all_backward: float = 0.0
    """Exchange of the gradients of pooled rows; with tables sharded by rows, their all-gather."""
    update: float = 0.0
    """Backward pass and optimizer of the tables."""
    bottom_backward: float = 0.0
    top_all_reduce: float = 0.0
    bottom_all_reduce: float = 0.0

    @property
    def forward(self) -> float:
        """`T_fwd` of Eq. 1."""
        embedding = self.lookup + self.all_to_all_forward
        return max(self.bottom_forward, embedding) + self.interaction_forward + self.top_forward

    @property
    def backward(self) -> float:
        """`T_bwd` of Eq. 1."""
        tables = self.all_to_all_backward + self.update
        dense = self.top_backward + self.interaction_backward + max(tables, self.bottom_backward)
        return max(dense, self.top_all_reduce + self.bottom_all_reduce)

    @property
    def total(self) -> float:
        """`T_total` of Eq. 1."""
        return self.forward + self.backward

    @property
    def compute(self) -> float:
        """Time of the MLPs and the interaction together."""
        forward = self.bottom_forward + self.interaction_forward + self.top_forward
        return forward + self.top_backward + self.interaction_backward + self.bottom_backward

    def scaled(self, by: float) -> StepParts:
        """The same in another unit."""
        return StepParts(**{name: by * value for name, value in asdict(self).items()})


_COMPUTED = {
    "bottom_forward": r"bottom\..*\.forward(\.elementwise)?",
    "bottom_backward": r"bottom\..*_gradient(\.elementwise)?",
    "top_forward": r"top\..*\.forward(\.elementwise)?",
    "top_backward": r"top\..*_gradient(\.elementwise)?",
    "interaction_forward": r"(interaction|cross)\.(.*\.)?forward(\.elementwise)?",
    "interaction_backward": r"(interaction|cross)\.(.*\.)?[a-z]+_gradient(\.elementwise)?",
    "lookup": r"embedding\.forward",
    "update": r"embedding\.weight_gradient(\.optimizer)?",
}
_EXCHANGED = {
    "all_to_all_forward": r"embedding\.forward\..*",
    "all_to_all_backward": r"embedding\.input_gradient\..*",
    "top_all_reduce": r"(top|cross|mlp)\..*weight_gradient\..*",
    "bottom_all_reduce": r"(bottom|embedding)\.(.*\.)?weight_gradient\..*",
}


def part(name: str, *, computed: bool) -> str | None:
    """The part of Eq. 1 that an operation of a step belongs to, by its name."""
    patterns = _COMPUTED if computed else _EXCHANGED
    return next((found for found, p in patterns.items() if re.fullmatch(p, name)), None)


def reported(step: StepParts, samples: int | None, measured_ns: float) -> Roofline:
    """The roofline of a step as reports have it: from its parts in ns, its samples on all ranks,
    where they are known, and the time that it takes, in ns."""

    def rate(ns: float) -> float | None:
        return samples / (ns * 1e-9) if samples and ns else None

    needs = {
        "memory bandwidth of tables": step.lookup + step.update,
        "compute": step.compute,
        "all-to-all": step.all_to_all_forward + step.all_to_all_backward,
        "all-reduce": step.top_all_reduce + step.bottom_all_reduce,
    }
    parts: Any = asdict(step)
    return {
        "parts": parts,
        "forward_ns": step.forward,
        "backward_ns": step.backward,
        "step_ns": step.total,
        "reached": step.total / measured_ns if measured_ns else 0.0,
        "samples": samples,
        "samples_per_second": rate(step.total),
        "binding": max(needs, key=lambda name: needs[name]),
        "resources": [
            {"name": name, "time_ns": ns, "samples_per_second": rate(ns)}
            for name, ns in needs.items()
        ],
    }
