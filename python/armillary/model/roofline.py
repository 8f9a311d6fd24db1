"""The least time of a training step of a recommendation model, from the times of its parts.

Model (Mudigere et al., Neo and ZionEX, ISCA 2022, Appendix B, Eq. 1 and Fig. 18):

    forward  = max(bottom, lookup + all_to_all) + interaction + top
    backward = max(top + interaction + max(all_to_all + update, bottom), top and bottom all_reduce)
    total    = forward + backward

The parts may be estimates (`planner/roofline.py`) or measured. What distributes the inputs is not
in the equation: it runs next to the top MLP of the batch before."""

from __future__ import annotations

from dataclasses import asdict, dataclass


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

    def as_dict(self) -> dict[str, float]:
        """The parts by name."""
        return asdict(self)
