"""Designs in words and tables: what to build, what is proved, what simulations say, what more would
buy. Not here: the page (`design/charts.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..units import GB, NS_PER_S, counted
from . import quantity, uncertain
from .page import Section, Table

Data = Mapping[str, Any]
_EXPLAINED = 5
"""Designs whose workloads are listed one by one."""
SCHEME_LABELS = 2
"""Columns of the table of schemes that are text."""
_BY_TIME = ("step_time", "performance_per_cost")
"""Objectives that the uncertainty of steps is about."""
_NEAR = 0.02
"""Gap that needs no explanation."""


def money(dollars: float) -> str:
    """`11.79 M$`."""
    for scale, unit in ((1e9, "G$"), (1e6, "M$"), (1e3, "k$")):
        if abs(dollars) >= scale:
            return f"{dollars / scale:.4g} {unit}"
    return f"{dollars:.4g} $"


def verdict(data: Data) -> str:
    """Recommendation in a few sentences: network to build, cost, step time, and confidence."""
    best = data["designs"][0]
    found = best["simulated"]
    step = _seconds(found["step_time"] if found else best["weighted_step_time"])
    said = f"Build {best['topology']} with {provision(best)} per NPU"
    if best["parallelisation"]:
        said += f", run with {best['parallelisation']}"
    said += f": {step} a step, " + ("simulated" if found else "by the model")
    said += f", for {money(best['cost'])}. " if best["cost"] is not None else ". "
    return said + safety(data) + _uncertainty(data)


def _uncertainty(data: Data) -> str:
    """Whether simulated designs are known to be apart, as a sentence."""
    order = data["order"]
    if data["objective"] not in _BY_TIME or order["simulated"] < 2:
        return ""
    return uncertain.sentence(order["alike"], "simulated design")


def safety(data: Data) -> str:
    """How safe the order of the designs is, in one or two sentences."""
    order = data["order"]
    count = f"{order['simulated']:,} design{'s' if order['simulated'] != 1 else ''} simulated"
    if order["status"] == "model":
        return "No design was simulated: the order is the model's, and simulations may change it."
    if data["objective"] == "pareto":
        return f"The front is the model's; {count} of {len(data['designs']):,}."
    late = data["designs"][0]["simulated"]["late"]
    bound = f" No design keeps the time bound of {', '.join(late)} when simulated." if late else ""
    if order["status"] == "proved":
        why = (
            "all others cost more"
            if data["objective"] == "cost"
            else "a lower bound shows that no other one is better"
        )
        return f"The order is proved: {count}, {why}.{bound}"
    open_ = "more than the budget allows" if order["open"] is None else f"{order['open']:,}"
    if order["status"] == "rule":
        return (
            f"The order is not proved: {count}. Of the others, {open_} have a lower bound below "
            "the step of this one. None is expected to be better: in the simulations so far, a "
            f"step takes at least {order['reach']:.1%} of the model's time.{bound}"
        )
    room = f", and others may be up to {order['room']:.1%} better" if order["room"] > 0 else ""
    return (
        f"The order is not safe: {count}, then the budget was used up{room}. A larger budget "
        f"continues.{bound}"
    )


def provision(design: Data) -> str:
    """`4 x 400 Gb/s + 2 x 100 Gb/s`, or `187.8 + 95.26 GB/s`."""
    if design["links"]:
        return " + ".join(link(each) for each in design["links"])
    return " + ".join(f"{part / GB:.4g}" for part in design["bandwidth"]) + " GB/s"


def link(links: Data) -> str:
    """`4 x 400 Gb/s`."""
    return f"{links['count']:,} x {links['speed'] * 8 / GB:.5g} Gb/s"


def sections(data: Data) -> list[Section]:
    """The best design with its proof, dimensions and limits; and simulations of the best ones next
    to the model."""
    best, objective = data["designs"][0], data["objective"]
    name = best["topology"]
    name += f", {best['parallelisation']}" if best["parallelisation"] else ""
    more = [*memory(best), *_constraints(best, objective)]
    found = [Section(name, [*_proof(best), _dimensions(best, objective), *more])]
    rows = [
        _check(design, check)
        for design in data["designs"][:_EXPLAINED]
        for check in design["checks"]
    ]
    if rows:
        columns = ("Rank", "Workload", "Backend", "Model", "Simulated", "Gap", "Where it is from")
        found.append(Section("Simulations", [Table("By workload", columns, rows, labels=3)]))
    return found


def searched(search: Data) -> str:
    """How many topologies there are, and what became of them."""
    parts = [
        f"{search['listed']:,} ranked by the model",
        f"{search['excluded']:,} proved no better in the model",
    ]
    if search["misplaced"]:
        parts.append(f"{search['misplaced']:,} on which a group can't be laid out")
    if search["infeasible"]:
        parts.append(f"{search['infeasible']:,} that the constraints rule out")
    return (
        f"{search['proved']:.1%} settled by {counted(search['programs'], 'program')}: of "
        f"{counted(search['topologies'], 'topology')}, {', '.join(parts)}."
    )


def _proof(design: Data) -> Iterator[str]:
    exact = (
        f"{design['value']:.6g}, proved to be at least {design['bound']:.6g}, duality gap "
        f"{design['gap']:.1e}"
    )
    if design["links"]:
        yield f"In the model no whole links on this topology are better ({exact})."
        over = design["value"] / design["continuous"] - 1 if design["continuous"] else 0.0
        yield (
            f"Bandwidths of any size would reach {design['continuous']:.6g}: whole links cost "
            f"{over:.2%}."
        )
    else:
        yield f"In the model no bandwidths on this topology are better ({exact})."
    if design["simulated"]:
        yield f"Simulated, its step takes {_off(design['simulated']['gap'])} than in the model."


def _off(gap: float) -> str:
    return f"{abs(gap):.2%} {'longer' if gap >= 0 else 'less'}"


def _dimensions(design: Data, objective: str) -> Table:
    whole, billed = bool(design["links"]), bool(design["bill"])
    powered = any(each["watts"] is not None for each in design["bill"])
    columns = ["Dimension", "Technology", *(["Links of an NPU"] if whole else [])]
    labels = len(columns)
    columns += [
        "GB/s",
        "1 GB/s more",
        *(["Cost"] if billed else []),
        *(["Power"] if powered else []),
    ]
    rows = []
    for index, given in enumerate(design["bandwidth"]):
        items = [each for each in design["bill"] if each["dimension"] == index]
        row = [design["topology"].split("_")[index], design["technologies"][index]]
        row += [link(design["links"][index])] if whole else []
        saved = design["shadow_prices"]["dimensions"][index] * GB
        row += [f"{given / GB:.5g}", saving(saved, objective, whole)]
        if billed:
            parts = ", ".join(f"{each['part']} {money(each['dollars'])}" for each in items)
            row.append(f"{money(sum(each['dollars'] for each in items))} ({parts})")
        if powered:
            row.append(f"{sum(each['watts'] or 0 for each in items) / 1e3:,.4g} kW")
        rows.append(row)
    return Table("Dimensions", columns, rows, labels=labels)


def memory(design: Data) -> Iterator[str]:
    """Sentences about the cost of a design's memory and the savings of its pool."""
    bill = {each["part"]: each for each in design["memory"]}
    if not bill:
        return
    local = bill["local"]
    yield (
        f"Memory of the NPUs: {quantity.size(local['amount'] * GB)} for {money(local['dollars'])}; "
        "costs of designs and the objective count the network alone"
    )
    if "pool" not in bill:
        return
    names = {"pool": "memory", "link": "links", "switch": "switches"}
    parts = ", ".join(f"{name} {money(bill[part]['dollars'])}" for part, name in names.items())
    total = sum(bill[part]["dollars"] for part in names)
    saved, pool = bill["saved"], bill["pool"]
    net = saved["dollars"] - total
    yield (
        f"The pool of {quantity.size(pool['amount'] * GB)} costs {money(total)} ({parts})."
        f" It saves {quantity.size(saved['amount'] * GB)} of the NPUs' memory, "
        f"{money(saved['dollars'])}: in all it {'saves' if net >= 0 else 'costs'} {money(abs(net))}"
    )


def _constraints(design: Data, objective: str) -> Iterator[str]:
    """Effects of other limits."""
    for each in design["shadow_prices"]["constraints"]:
        step, what = (1e3, "1,000 $") if each["unit"] == "$" else (GB, "1 GB/s")
        if abs(each["saves"]) * step > 1e-9 * max(design["value"], 1e-30):
            weighed = ", its price included" if objective == "performance_per_cost" else ""
            yield (
                f"{each['name']}: {what} {each['change']} "
                f"{saving(each['saves'] * step, objective)}{weighed}"
            )
    dollar = design["shadow_prices"]["dollar"]
    if dollar and objective != "cost":
        yield f"another 1,000 $ where they help most save {_seconds(dollar * 1e3)}"


def saving(amount: float, objective: str, time: bool = False) -> str:
    """`saves 22.6 ms`, `costs 1 s`, or `changes nothing`; of the objective, or of `time` whatever
    it is."""
    if amount == 0:
        return "changes nothing"
    size = money(abs(amount)) if objective == "cost" and not time else _seconds(abs(amount))
    return f"{'saves' if amount > 0 else 'costs'} {size}"


def _check(design: Data, check: Data) -> tuple[str, ...]:
    """A workload's step in the model and simulated, and where the gap is from."""
    times = (_seconds(check["model"]), _seconds(check["simulated"]), f"{check['gap']:+.2%}")
    return str(design["rank"]), check["workload"], check["backend"], *times, _effects(check)


def _effects(check: Data) -> str:
    if not check["effects"]:
        return "within 2 %" if abs(check["gap"]) <= _NEAR else "-"
    return ", ".join(f"{name} {_signed(seconds)}" for name, seconds in check["effects"].items())


def _signed(seconds: float) -> str:
    return ("+" if seconds >= 0 else "-") + _seconds(abs(seconds))


def scheme_rows(schemes: Sequence[Data]) -> tuple[list[str], list[list[str]]]:
    """Columns and rows of the table of schemes, with costs where there are prices.

    The last columns go by the step of the model."""
    priced = any(each["cost"] is not None for each in schemes)
    tried = any(each["simulated"] is not None for each in schemes)
    columns = ["Scheme", "GB/s by dimension", "Model", *(["Simulated"] if tried else [])]
    columns += ["Over EqualBW", "Utilisation"]
    columns += ["Cost", "Steps/s/M$"] if priced else []
    rows = []
    for each in schemes:
        row = [
            each["scheme"],
            " + ".join(f"{part / GB:.4g}" for part in each["bandwidth"]),
            _seconds(each["step_time"]),
            *([_seconds(each["simulated"])] if tried else []),
            f"{schemes[0]['step_time'] / each['step_time']:.3f}x",
            quantity.share(each["utilisation"]),
        ]
        per_cost = each["performance_per_cost"]
        bought = "-" if per_cost is None else f"{per_cost * 1e6:.4g}"
        rows.append([*row, *([money(each["cost"]), bought] if priced else [])])
    return columns, rows


def broken(schemes: Sequence[Data]) -> list[str]:
    """Limits that each scheme breaks, one sentence a scheme."""
    return [
        f"{each['scheme']} breaks {'; '.join(each['breaks'])}" for each in schemes if each["breaks"]
    ]


def _seconds(seconds: float) -> str:
    return quantity.time(seconds * NS_PER_S)
