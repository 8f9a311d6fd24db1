"""`plan` of a decoder: on one machine, or on the best of several."""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import InputError, Problem
from ..model.files import Model
from ..platform import AnyPlatform
from ..workload.frameworks import settings_of
from .goal import goal
from .job import Job
from .joint import search_machines
from .machine_plan import MachinePlan
from .machines import machines
from .result import LayoutPlan
from .search import Progress, on_machine


def plan_layouts(
    model: str | os.PathLike[str] | Model,
    platform: AnyPlatform | Sequence[AnyPlatform],
    ranks: int | Sequence[int] | None = None,
    *,
    objective: str | None = None,
    prices: Mapping[str, float] | None = None,
    tokens: str | float | None = None,
    days: float | None = None,
    settings: Mapping[str, object] | None = None,
    progress: Progress | None = None,
    **given: Any,  # noqa: ANN401 - what `Job.of` takes
) -> LayoutPlan | MachinePlan:
    """The best layout of a decoder on `ranks` NPUs of `platform`.

    Several platforms, several numbers of ranks, or any of `objective`, `prices`, `tokens` and
    `days` give a `MachinePlan`: the best layout and machine together. The objective is `time` (of a
    step), `cost` (dollars for a token, with `prices` in dollars of an NPU hour by platform) or
    `memory` (of the fullest rank). `tokens` is the size of a job, such as "15T", and `days` the
    time that it may take; then the default objective is `cost`.

    `settings` override values of platforms that are named. `given` are the other options of
    `armillary.layouts.search`: `global_batch`, `seq`, `layout`, `framework`, `framework_set`,
    `near`, `simulations`, `backend`, `measured` (of one machine), `sensitivity`.

    Raises:
        InputError: wrong options; no layout fits, with the fewest NPUs on which one does; no
            machine is fast enough.
    """
    say = progress or (lambda _: None)
    one = isinstance(platform, str | os.PathLike) or not isinstance(platform, Sequence)
    platforms: list[AnyPlatform] = [platform] if one else list(platform)  # type: ignore[list-item, arg-type]
    counts = [] if ranks is None else [ranks] if isinstance(ranks, int) else list(ranks)
    known = [
        name for name in inspect.signature(Job.of).parameters if name not in ("model", "ranks")
    ]
    if wrong := [name for name in given if name not in known]:
        allowed = ", ".join(known)
        raise InputError([Problem("plan", name, "is unknown", allowed) for name in wrong])
    decided = {**settings_of({"framework": given.get("framework")}), **(settings or {})}
    every = machines(platforms, counts, prices or {}, decided)
    job = Job.of(model, max(each.ranks for each in every), **given)
    plain = objective is None and not prices and tokens is None and days is None
    if len(every) == 1 and plain:
        return on_machine(job, every[0].platform, say)
    if job.measured:
        said = "several machines: steps are of one"
        raise InputError([Problem("plan", "measured", said, "one platform and number of ranks")])
    wanted = goal(objective, tokens, days, job.global_batch * job.seq, every)
    return search_machines(job, every, wanted, say)
