"""The page of a search over several machines: the best one, the others and why they are not, the
front, and the layouts of the best one."""

from __future__ import annotations

from typing import Any

from ..report.page import Fact, Page, Section, Table
from ..report.quantity import Quantity, number, rate, size, time
from ..units import counted
from . import page as of_layouts

Data = dict[str, Any]


def page(data: Data) -> Page:
    """The page of a `MachinePlan` as `to_dict` gives it."""
    best = data["machines"][data["best"]]
    inner = of_layouts.page(best["plan"])
    facts = [each for each in inner.facts if each.label not in ("Layouts", "Proved gap")]
    return Page(
        title=f"Machines for {data['model']}",
        verdict=verdict(data),
        lead=_lead(data),
        warnings=data["warnings"],
        facts=[
            Fact("Machine", _name(best)),
            *_job(data, best),
            *facts,
            Fact("Layouts", f"{_layouts(data):,}"),
            Fact("Proved gap", of_layouts.at_most(data["gap"])),
        ],
        sections=[
            Section("Machines", [_machines(data)]),
            *inner.sections,
            Section("Speed, cost and memory", [_front(data)]),
        ],
    )


def verdict(data: Data) -> str:
    """The best machine and layout, and what is proved of it."""
    best = data["machines"][data["best"]]
    first = best["plan"]["best"][0]
    said = f"{_name(best)}, {of_layouts.named(first)}: {_value(data, best)}. "
    ways = f"{_layouts(data):,} layouts on {counted(len(data['machines']), 'machine')}"
    gap = of_layouts.at_most(data["gap"])
    late = "" if data["limit_days"] is None else f" within {data['limit_days']:g} days"
    if data["objective"] == "time":
        said += f"No other of the {ways} has a simulated step that is more than {gap} faster"
    elif data["objective"] == "cost":
        said += f"No other of the {ways} trains{late} for more than {gap} less, in the simulator"
    else:
        said += (
            f"No other of the {ways} needs less memory. Of those that need the same, none has a "
            f"simulated step that is more than {gap} faster"
        )
    if data["stopped"]:
        said += of_layouts.STOPPED
    elif data["open_layouts"]:
        said += (
            f"; {counted(data['open_layouts'], 'layout')} with a bound below this value "
            f"{'was' if data['open_layouts'] == 1 else 'were'} not simulated (--simulations)"
        )
    alike = sum(not each["separated"] for each in data["machines"])
    if alike:
        said += (
            f". The uncertainty of predictions does not separate {alike} of the other machines "
            "from it"
        )
    return said + "."


def _value(data: Data, best: Data) -> str:
    """The best value of the objective, and days and dollars of a job."""
    first = best["plan"]["best"][0]
    said = [f"{time(first['step_ns'])} a step"]
    if data["objective"] == "memory":
        said.insert(0, f"{size(first['memory_bytes'])} on the fullest rank")
    if best["tokens_per_dollar"] is not None:
        said.append(f"{rate(best['tokens_per_dollar'])} tokens for a dollar")
    if best["days"] is not None:
        said.append(f"{best['days']:,.1f} days")
    if best["dollars"] is not None:
        said.append(_dollars(best["dollars"]))
    return ", ".join(said)


def _lead(data: Data) -> str:
    job = ""
    if data["tokens"] is not None:
        job = f" {data['tokens']:,.0f} tokens are {data['steps']:,} steps."
    return (
        f"{counted(data['global_batch'], 'sample')} of {data['seq']:,} tokens a step, the same on "
        f"each machine.{job}"
    )


def _job(data: Data, best: Data) -> list[Fact]:
    found = []
    if best["tokens_per_dollar"] is not None:
        found.append(Fact("Tokens for a dollar", rate(best["tokens_per_dollar"])))
    if best["days"] is not None:
        found.append(Fact("Days", f"{best['days']:,.1f}"))
    if best["dollars"] is not None:
        found.append(Fact("Dollars of the job", _dollars(best["dollars"])))
    return found


def _machines(data: Data) -> Table:
    """Every machine; columns that say nothing are left out."""
    columns = ("Machine", "Step", "Tokens/s", "Tokens/$", "Days", "Dollars", "Memory", "Result")
    rows = [_row(each) for each in data["machines"]]
    kept = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    note = "A step with >= is a lower bound: no layout of this machine was simulated."
    return Table(
        "Each machine with its fastest layout",
        [columns[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        note if any(row[1].startswith(">=") for row in rows) else "",
    )


def _row(each: Data) -> list[str]:
    first = each["plan"]["best"][0] if each["plan"] else None
    step = Quantity(f">= {time(each['bound_ns'])}", each["bound_ns"]) if each["bound_ns"] else ""
    least = size(each["least_bytes"]) if each["least_bytes"] else ""
    said = "best" if each["status"] == "best" else f"{each['status']}: {each['reason']}"
    if not each["separated"]:
        said += " (not separated)"
    return [
        _name(each),
        time(first["step_ns"]) if first else step,
        f"{first['tokens_per_s']:,.0f}" if first else "",
        rate(each["tokens_per_dollar"]) if each["tokens_per_dollar"] is not None else "",
        f"{each['days']:,.1f}" if each["days"] is not None else "",
        _dollars(each["dollars"]) if each["dollars"] is not None else "",
        size(first["memory_bytes"]) if first else f"{least} or more" if least else "",
        said,
    ]


def _front(data: Data) -> Table:
    columns = ["Machine", "Layout", "Tokens/s", "Tokens/$", "Memory", "Gap"]
    rows = [
        [
            _name(data["machines"][each["machine"]]),
            of_layouts.named(each),
            number(round(each["tokens_per_s"])),
            rate(each["tokens_per_dollar"]) if each["tokens_per_dollar"] is not None else "",
            size(each["memory_bytes"]),
            of_layouts.at_most(each["gap"]),
        ]
        for each in data["front"]
    ]
    kept = [at for at in range(len(columns)) if any(row[at] for row in rows)]
    note = (
        "Simulated layouts that no other simulated one beats in everything. Other layouts may lie "
        "between them. Gap: no layout of any machine that needs at most this memory is better by "
        "more in both speed and tokens for a dollar."
    )
    return Table(
        "Simulated layouts that none beats",
        [columns[at] for at in kept],
        [[row[at] for at in kept] for row in rows],
        note,
        labels=2,
    )


def _layouts(data: Data) -> int:
    return sum(each["layouts"] for each in data["machines"])


def _name(each: Data) -> str:
    return f"{counted(each['ranks'], 'NPU')} of {each['platform']}"


def _dollars(amount: float) -> str:
    return Quantity(f"${amount:,.0f}" if amount >= 100 else f"${amount:,.2f}", amount)
