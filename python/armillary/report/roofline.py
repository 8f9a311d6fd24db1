"""The roofline of a recommendation model's step, for people.

Here: what is shown of a report's `roofline`. Not here: how it is found
(`explain/dlrm_parts.py`)."""

from __future__ import annotations

from ..schema import Roofline
from .parts import Section, Table
from .quantity import rate, share, time

_PARTS = {
    "Bottom MLP": ("bottom_forward", "bottom_backward"),
    "Lookup and update": ("lookup", "update"),
    "All-to-all": ("all_to_all_forward", "all_to_all_backward"),
    "Interaction": ("interaction_forward", "interaction_backward"),
    "Top MLP": ("top_forward", "top_backward"),
}
"""Parts of Eq. 1 by name: forward and backward."""


def line(found: Roofline) -> str:
    """Summary in a sentence."""
    return f"roofline {time(found['step_ns'])}{_samples(found)}: {_reached(found)}"


def section(found: Roofline) -> Section:
    """Section of a run's page."""
    parts = found["parts"]
    rows = [
        (name, *(time(parts[key]) for key in keys))  # type: ignore[literal-required]
        for name, keys in _PARTS.items()
    ]
    reduced = ("top_all_reduce", "bottom_all_reduce")
    rows.append(("All-reduce", "", time(sum(parts[key] for key in reduced))))  # type: ignore[literal-required]
    rows.append(("Both", time(found["forward_ns"]), time(found["backward_ns"])))
    said = (
        "The least time of a step by the times of its parts (Eq. 1 of Neo and ZionEX, appendix B): "
        f"{time(found['step_ns'])}{_samples(found)}. {_reached(found).capitalize()}."
    )
    heads = ("Part", "Forward", "Backward")
    table = Table("Parts of the roofline, mean over the ranks", heads, rows)
    return Section("Roofline", [said, table, _resources(found)])


def _resources(found: Roofline) -> Table:
    heads = ["Resource", "Time"] + (["Samples/s"] if found["samples"] else [])
    rows = []
    for each in found["resources"]:
        allowed = each["samples_per_second"]
        last = [rate(allowed) if allowed else ""] if found["samples"] else []
        rows.append((each["name"], time(each["time_ns"]), *last))
    return Table("Time that each resource needs by itself", heads, rows)


def _samples(found: Roofline) -> str:
    allowed = found["samples_per_second"]
    return f", {rate(allowed)} samples/s" if allowed else ""


def _reached(found: Roofline) -> str:
    return f"the step reaches {share(found['reached'])} of it; {found['binding']} needs most of it"
