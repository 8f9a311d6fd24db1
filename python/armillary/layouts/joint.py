"""The best machine and layout together, proved by bounds.

Every machine has a lower bound of its objective. Machines are searched in the order of these
bounds; those whose bound is not below the best value found so far can't be the best. Of them, the
layout with the smallest estimate is simulated if it may be on the front. Not here: the search on
one machine (`search.py`), the front (`front.py`)."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from ..errors import InputError, Problem
from ..report.quantity import size, time
from ..units import PS_PER_NS, counted
from . import front
from .contender import Contender
from .goal import Goal
from .job import Job
from .machine_plan import FrontPoint, MachineAnswer, MachinePlan, SearchInterrupted, Status
from .machines import Machine
from .result import apart
from .search import GAP, NoLayout, Search, named, opened

Progress = Callable[[float], None]


def search_machines(
    job: Job, machines: Sequence[Machine], goal: Goal, say: Progress
) -> MachinePlan:
    """The best layout of a job on the best machine. Raises `InputError` where no layout fits any
    machine, or none is in time, and `SearchInterrupted`."""
    every = _opened(job, machines, goal, lambda share: say(0.5 * share))
    points: list[FrontPoint] = []
    try:
        _compare(every, goal, lambda share: say(0.5 + 0.4 * share))
        if not any(each.in_time for each in every):
            raise InputError(_too_slow(every, goal))
        _searched(_best(every)).prove(lambda _: None)
        points = front.points(every, goal, lambda share: say(0.9 + 0.1 * share))
    except KeyboardInterrupt as stop:
        if not any(each.in_time for each in every):
            raise
        for each in every:
            if each.search:
                each.search.stop = stop
    best = _best(every)
    gap, left = _gap(every, best)
    answers = [_answer(each, best, every, goal) for each in every]
    if job.sensitivity:
        plan = _searched(best).around(answers[every.index(best)].plan)  # type: ignore[arg-type] # it has one
        answers[every.index(best)] = replace(answers[every.index(best)], plan=plan)
    stopped = _searched(best).stop
    found = MachinePlan(
        job.model.name,
        goal.objective,
        job.global_batch,
        job.seq,
        goal.tokens,
        goal.limit_days,
        goal.steps,
        answers,
        every.index(best),
        gap,
        left,
        points,
        _warnings(answers, every.index(best)),
        stopped is not None,
    )
    if stopped:
        raise SearchInterrupted(found, stopped)
    return found


def _searched(each: Contender) -> Search:
    """The search on a machine that has one."""
    assert each.search is not None
    return each.search


def _opened(job: Job, machines: Sequence[Machine], goal: Goal, say: Progress) -> list[Contender]:
    """The machines with the bounds of their layouts. Raises `InputError` where none has any."""
    every = []
    failed: dict[int, NoLayout] = {}
    known: dict[int, Search] = {}
    for at, machine in enumerate(machines):
        each = Contender(machine, goal)
        try:
            like = known.get(machine.ranks) or next(iter(known.values()), None)
            each.search = known[machine.ranks] = opened(job, machine.platform, like)
            each.search.look()
            each.least = each.search.space.parts.space.least_bytes()
            if goal.objective == "memory":
                each.search.limit(each.least)
        except NoLayout as error:
            each.search, each.why = None, error.problems[0].message
            failed[at] = error
        every.append(each)
        say((at + 1) / len(machines))
    if len(failed) == len(every):
        problems = [
            replace(problem, file=f"{every[at].name}: {problem.file}")
            for at, error in failed.items()
            for problem in named(error, job, machines[at].platform)
        ]
        raise InputError(problems)
    return every


def _compare(every: Sequence[Contender], goal: Goal, say: Progress) -> None:
    """Simulates layouts of machines in the order of their bounds."""
    found: tuple[int, float] = (1 << 63, math.inf)
    tried: list[Contender] = []
    order = sorted(
        (each for each in every if each.search), key=lambda each: each.value(each.lowest)
    )
    for at, each in enumerate(order):
        assert each.search is not None
        limit = each.beaten_at(found)
        hopeless = each.lowest >= limit * (1 - GAP) or each.lowest > goal.limit_ns
        if hopeless and front.beaten(each, tried):
            continue
        try:
            if hopeless:
                each.search.prove(lambda _: None, 1)
            else:
                each.search.prove(lambda _: None, None, limit, 1)
        except InputError as error:
            each.why = error.problems[0].message
            continue
        tried.append(each)
        if each.in_time:
            found = min(found, each.value(each.step))
        say((at + 1) / len(order))


def _best(every: Sequence[Contender]) -> Contender:
    """The best machine by what was simulated."""
    return min((each for each in every if each.in_time), key=lambda each: each.value(each.step))


def _gap(every: Sequence[Contender], best: Contender) -> tuple[float, int]:
    """How far layouts that were not simulated may be ahead, and how many may be."""
    value = best.value(best.step)
    lowest, count = value[1], 0
    for each in every:
        if each.search is None:
            continue
        limit = each.beaten_at(value)
        rows = each.search.open_rows(limit) if each.lowest < limit else []
        count += len(rows)
        weight = each.goal.weight(each.machine)
        lowest = min((lowest, *(row[2] / PS_PER_NS * weight for row in rows)))
        if each.search.stop and each.lowest < limit:
            # Layouts that a stopped search has not listed have bounds above the floor.
            lowest = min(lowest, each.search.floor / PS_PER_NS * weight)
    return max(0.0, 1 - lowest / value[1]), count


def _answer(
    each: Contender, best: Contender, every: Sequence[Contender], goal: Goal
) -> MachineAnswer:
    machine, search = each.machine, each.search
    name, ranks = machine.name, machine.ranks
    if search is None:
        return MachineAnswer(name, ranks, "unfit", each.why, machine.price)
    status, reason = _status(each, best, every, goal)
    simulated = bool(search.best)
    plan = search.plan(each is best) if simulated else None
    step = each.step if simulated else None
    weight = goal.weight(machine) / goal.weight(best.machine)
    return MachineAnswer(
        name,
        ranks,
        status,
        reason,
        machine.price,
        search.space.parts.space.layouts,
        search.fastest,
        each.least,
        plan,
        None if step is None else goal.tokens_per_dollar(machine, step),
        None if step is None else goal.days(step),
        None if step is None else goal.dollars(machine, step),
        each is best
        or not simulated
        or goal.objective == "memory"
        or apart(
            best.search.best[0],  # type: ignore[union-attr] # the best machine was simulated
            search.best[0],
            each.step * weight / best.step,
        ),
    )


def _status(
    each: Contender, best: Contender, every: Sequence[Contender], goal: Goal
) -> tuple[Status, str]:
    """The result of a machine, and why."""
    if each is best:
        return "best", ""
    if not each.in_time and (each.step < math.inf or each.lowest > goal.limit_ns):
        return "late", _late(each, every, goal)
    if each.step == math.inf:
        return _not_simulated(each)
    bytes_, value = best.value(best.step)
    own_bytes, own = each.value(each.step)
    if own_bytes != bytes_:
        return "behind", f"the fullest rank needs {size(own_bytes - bytes_)} more"
    what = {"time": "a step takes", "memory": "a step takes", "cost": "a token costs"}
    return "behind", f"{what[goal.objective]} {(own / value - 1) * 100:.1f}% more"


def _not_simulated(each: Contender) -> tuple[Status, str]:
    """The result of a machine without a simulated layout, and why."""
    if each.why:
        return "excluded", each.why
    search = _searched(each)
    said = f"no step is faster than {time(search.fastest)}, by bounds"
    if search.stop:
        return "open", f"not simulated before the search was stopped; {said}"
    return "excluded", f"{said}; another machine is better in everything"


def _late(each: Contender, every: Sequence[Contender], goal: Goal) -> str:
    """Days of a machine that is too slow, and the smallest one of its platform that is not."""
    simulated = each.step < math.inf
    days = goal.days(each.step if simulated else each.lowest)
    said = (
        f"takes {days:,.1f} days{'' if simulated else ' or more'}, more than {goal.limit_days:,g}"
    )
    if each.lowest <= goal.limit_ns:
        said += f" (by bounds, {goal.days(each.lowest):,.1f} or more)"
    larger = [other for other in every if other.machine.name == each.machine.name and other.in_time]
    if not larger:
        return f"{said}; no number of these NPUs that was searched does it"
    least = min(larger, key=lambda other: other.machine.ranks)
    return f"{said}; {least.machine.ranks:,} NPUs take {goal.days(least.step):,.1f}"


def _too_slow(every: Sequence[Contender], goal: Goal) -> list[Problem]:
    """No machine is in time."""
    return [
        Problem(
            each.name,
            "--days",
            _late(each, every, goal) if each.search else each.why,
            "more ranks, faster NPUs, or more days",
        )
        for each in every
    ]


def _warnings(answers: Sequence[MachineAnswer], best: int) -> list[str]:
    """Warnings of the best machine, and those that only others have, with their names."""
    first = answers[best].plan
    found = list(first.warnings) if first else []
    known = set(found)
    for each in answers:
        for warning in each.plan.warnings if each.plan else ():
            if warning not in known:
                found.append(f"{counted(each.ranks, 'NPU')} of {each.platform}: {warning}")
    return found
