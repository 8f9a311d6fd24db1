"""Designs on a terminal: the ranked table, what is proved, what the simulator says, what more would buy."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from . import quantity
from .terminal import emit

Data = Mapping[str, Any]


def show(data: Data, console: Console) -> None:
    """Prints what a design run found, as its JSON has it, to fit the console's width."""
    emit(console, _parts(data))


def money(dollars: float) -> str:
    """`11.79 M$`."""
    for scale, unit in ((1e9, "G$"), (1e6, "M$"), (1e3, "k$")):
        if abs(dollars) >= scale:
            return f"{dollars / scale:.4g} {unit}"
    return f"{dollars:.4g} $"


def _parts(data: Data) -> Iterator[RenderableType]:
    yield Text(f"{data['name']}  {data['objective'].replace('_', ' ')}, {data['npus']:,} NPUs", "bold green")
    yield Text(_searched(data["search"]))
    yield from (Text(f"note: {each}") for each in data["notes"])
    yield Text("")
    yield _ranking(data["designs"])
    best = data["designs"][0]
    yield Text("")
    yield Text(f"{best['topology']}" + (f", {best['parallelisation']}" if best["parallelisation"] else ""), "bold")
    yield from _proof(best)
    yield _dimensions(best)
    yield from _constraints(best)
    yield from _checks(data["designs"])
    yield from _schemes(data["schemes"])


def _searched(search: Data) -> str:
    parts = [
        f"{search['topologies']:,} topologies: {search['listed']:,} listed",
        f"{search['excluded']:,} proved no better",
    ]
    if search["misplaced"]:
        parts.append(f"{search['misplaced']:,} on which a group lies on no grid")
    if search["infeasible"]:
        parts.append(f"{search['infeasible']:,} that the constraints rule out")
    return ", ".join(parts) + f"; {search['proved']:.1%} settled by {search['programs']:,} programs"


def _ranking(designs: Sequence[Data]) -> Table:
    priced = any(each["cost"] is not None for each in designs)
    varied = any(each["parallelisation"] for each in designs)
    table = _table("", "Topology", *(["Parallelisation"] if varied else []), "GB/s by dimension")
    for name in ("Step", *(["Cost"] if priced else []), "Simulated", "Gap"):
        table.add_column(name, justify="right")
    for each in designs:
        row = [str(each["rank"]), each["topology"], *([each["parallelisation"]] if varied else [])]
        row += [" + ".join(f"{part / 1e9:.4g}" for part in each["bandwidth"]), _seconds(each["weighted_step_time"])]
        row += [money(each["cost"])] if priced else []
        table.add_row(*row, *_simulated(each))
    return table


def _simulated(design: Data) -> tuple[str, str]:
    """Simulated step time, where all workloads have one, and how far it is off the model."""
    if not design["checks"]:
        return "-", "-"
    worst = max(design["checks"], key=lambda each: abs(each["gap"]))
    if len(design["step_time"]) > 1:
        return "each below", f"{worst['gap']:+.2%}"
    return _seconds(worst["simulated"]), f"{worst['gap']:+.2%}"


def _proof(design: Data) -> Iterator[Text]:
    unit = f"{design['value']:.6g} against a proved bound of {design['bound']:.6g}"
    yield Text(f"duality gap {design['gap']:.1e} ({unit}): no bandwidths on this topology are better by more")


def _dimensions(design: Data) -> Table:
    table = _table("Dimension", "Technology")
    billed = bool(design["bill"])
    powered = any(each["watts"] is not None for each in design["bill"])
    for name in ("GB/s", "1 GB/s more saves", *(["Cost"] if billed else []), *(["Power"] if powered else [])):
        table.add_column(name, justify="right")
    for index, given in enumerate(design["bandwidth"]):
        items = [each for each in design["bill"] if each["dimension"] == index]
        cells = [f"{given / 1e9:.5g}", _saving(design["shadow_prices"]["dimensions"][index] * 1e9)]
        if billed:
            parts = ", ".join(f"{each['part']} {money(each['dollars'])}" for each in items)
            cells.append(f"{money(sum(each['dollars'] for each in items))} ({parts})")
        if powered:
            cells.append(f"{sum(each['watts'] or 0 for each in items) / 1e3:,.4g} kW")
        table.add_row(design["topology"].split("_")[index], design["technologies"][index], *cells)
    return table


def _constraints(design: Data) -> Iterator[Text]:
    """What loosening each binding limit buys."""
    for name, price in design["shadow_prices"]["constraints"].items():
        if abs(price) * 1e9 > 1e-9 * max(design["value"], 1e-30):
            yield Text(f"{name}: 1 GB/s more saves {_saving(price * 1e9)}")
    dollar = design["shadow_prices"]["dollar"]
    if dollar:
        yield Text(f"another 1,000 $ where they help most save {_saving(dollar * 1e3)}")


def _saving(amount: float) -> str:
    return (
        f"{quantity.time(amount * 1e9)}"
        if amount > 0
        else "nothing"
        if amount == 0
        else f"-{quantity.time(-amount * 1e9)}"
    )


def _checks(designs: Sequence[Data]) -> Iterator[RenderableType]:
    rows = [(each, check) for each in designs for check in each["checks"]]
    if not rows:
        return
    yield Text("")
    table = _table("", "Workload", "Backend")
    for name in ("Model", "Simulated", "Gap"):
        table.add_column(name, justify="right")
    table.add_column("Where it is from", overflow="fold")
    for design, check in rows:
        times = (_seconds(check["model"]), _seconds(check["simulated"]), f"{check['gap']:+.2%}")
        table.add_row(str(design["rank"]), check["workload"], check["backend"], *times, _effects(check))
    yield table


def _effects(check: Data) -> str:
    if not check["effects"]:
        return "within 2 %"
    return ", ".join(f"{name} {_signed(seconds)}" for name, seconds in check["effects"].items())


def _signed(seconds: float) -> str:
    return ("+" if seconds >= 0 else "-") + _seconds(abs(seconds))


def _schemes(schemes: Sequence[Data]) -> Iterator[RenderableType]:
    if not schemes:
        return
    yield Text("")
    table = _table("Scheme", "GB/s by dimension")
    for name in ("Step", "Over EqualBW", "Utilisation"):
        table.add_column(name, justify="right")
    for each in schemes:
        shared = " + ".join(f"{part / 1e9:.4g}" for part in each["bandwidth"])
        faster = f"{schemes[0]['step_time'] / each['step_time']:.3f}x"
        table.add_row(each["scheme"], shared, _seconds(each["step_time"]), faster, quantity.share(each["utilisation"]))
    yield table


def _seconds(seconds: float) -> str:
    return quantity.time(seconds * 1e9)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
