"""Training steps: from what a source says of a run to the run as `Training`, and our time of it.

One rule for each source, because each has words of its own. A rule holds for every row of its
source, and names none. Here: language models. Not here: the rules (`rules.py`, `megatron.py`,
`mlperf.py`), what we predict (`predict/`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from armillary.errors import InputError
from armillary.kernels.tables import Left

from ..training import Training
from . import megatron, mlperf, rules, stated
from .file import Row, problem
from .reading import Part
from .run import Missing, Run

RULES: Mapping[str, Callable[[Row], Run]] = {**rules.RULES, **megatron.RULES}
REASONS: Mapping[str, str] = {**rules.REASONS}


def training(row: Row) -> Training | Left:
    """A row as a run, or why it can't be one."""
    group = str(row["group"])
    rule = RULES.get(group)
    if rule is None:
        return Left(REASONS.get(group, f"no rule for the source {group!r}"))
    return _checked(row, group, rule, "training")


def submission(row: Row) -> Training | Left:
    """A submission to MLPerf as a run, or why it can't be one."""
    return _checked(row, "mlperf", mlperf.run, "mlperf")


def _checked(row: Row, group: str, rule: Callable[[Row], Run], kind: str) -> Training | Left:
    """Run that a rule makes of a row, if it agrees with everything that the row states."""
    seen = Part({**row, "group": group})
    try:
        found = _run(seen, group, rule(seen))
        stated.check(seen, found, kind)
    except Missing as missing:
        return Left(str(missing))
    except InputError as error:
        return Left(f"not predicted: {problem(error)}")
    return found


def _run(row: Row, group: str, run: Run) -> Training:
    """A row as a run, by the facts that a rule found out. Raises `Missing` where its time or its
    layout is."""
    dp = run.dp or max(1, run.gpus // (run.tp * run.pp * run.cp))
    if dp * run.tp * run.pp * run.cp != run.gpus:
        raise Missing("the layout does not use all GPUs")
    seconds = run.seconds if run.seconds is not None else _seconds(row["metric"])
    if seconds is None:
        seconds = _from_rate(row["metric"], run)
    if seconds is None:
        raise Missing("no time of a step and no rate from which it follows")
    return Training(
        name=str(row["id"]),
        group=group,
        grade=str(row.get("grade", "")),
        model=run.model,
        seq=run.sequence,
        gpu=run.gpu,
        gpus=run.gpus,
        nodes=run.nodes,
        dp=dp,
        tp=run.tp,
        pp=run.pp,
        cp=run.cp,
        ep=run.ep,
        zero=run.zero,
        virtual_stages=run.virtual_stages,
        micro_batch=run.micro_batch,
        global_batch=run.global_batch,
        recompute=run.recompute,
        precision=run.precision,
        extra=run.extra,
        iter_time_s=seconds,
        memory_gib=run.gib,
    )


def _seconds(metric: Mapping[str, Any]) -> float | None:
    for key in ("iter_time_s", "iter_time_s_derived", "step_time_s"):
        if metric.get(key):
            return float(metric[key])
    return None


def _from_rate(metric: Mapping[str, Any], run: Run) -> float | None:
    """A step's time from its tokens per second."""
    rate = metric.get("tokens_per_s")
    each = metric.get("tokens_per_s_per_gpu")
    if not rate and each:
        rate = float(each) * run.gpus
    return run.global_batch * run.sequence / float(rate) if rate else None
