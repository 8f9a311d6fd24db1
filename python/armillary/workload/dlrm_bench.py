"""Measured parts of a training step, from a file of `armillary bench`.

Here: which parts there are, and whether they are those of a run. Not here: where they are in the
step (`dlrm_flow.py`), how they are measured (`armillary_train/bench/parts.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import documents
from ..errors import InputError, Problem
from ..units import PS_PER_US

SCHEMA = "armillary.bench/1"
WRITES = "what armillary bench MODEL -o FILE writes"

_LONGEST = 1e12
"""A part takes less than eleven days, us."""
Parts = Mapping[str, int]
"""Name of a part -> picoseconds of a step."""


def read_parts(path: str, model: str, ranks: int, local_batch: int) -> Parts:
    """The parts in a file. Raises `InputError` where they are of another model, number of processes
    or batch."""
    data = documents.parse_json(
        documents.read_bytes(path, "a file of armillary bench").decode("utf-8-sig", "replace"),
        path,
        "",
    )
    try:
        known = data["schema"] == SCHEMA and bool(data.get("parts"))
        found = {str(row["name"]): _time(row["us"]) for row in data["parts"]} if known else {}
        ours = (str(data["model"]), int(data["processes"]), int(data["batch"])) if known else None
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        said = f"is damaged: {type(error).__name__} {error}"
        raise InputError([Problem(path, "", said, WRITES)]) from None
    if ours is None:
        raise InputError([Problem(path, "", "has no parts of a model's step", WRITES)])
    wanted = (model, ranks, ranks * local_batch)
    if ours != wanted:
        said = "measured {} on {} processes with {} samples".format(*ours)
        allowed = "armillary bench {} --ranks {} --global-batch {}".format(*wanted)
        raise InputError([Problem(path, "", said, allowed)])
    return found


def _time(us: Any) -> int:  # noqa: ANN401 - checked here
    value = float(us)
    if not 0 < value < _LONGEST:
        raise ValueError(f"{us} us")
    return round(value * PS_PER_US)
