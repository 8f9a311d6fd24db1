"""Designs on a terminal: the ranked table, what is proved, what the simulator says, what more would buy."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
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
    yield from _ranking(data["designs"])
    best = data["designs"][0]
    yield Text("")
    yield Text(f"{best['topology']}" + (f", {best['parallelisation']}" if best["parallelisation"] else ""), "bold")
    saving = _dollars if data["objective"] == "cost" else _duration
    yield from _proof(best)
    yield _dimensions(best, saving)
    yield from _constraints(best, saving)
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


def _ranking(designs: Sequence[Data]) -> Iterator[RenderableType]:
    """The designs, and below them the parallelisations by letter."""
    priced = any(each["cost"] is not None for each in designs)
    chosen = list(dict.fromkeys(each["parallelisation"] for each in designs if each["parallelisation"]))
    table = _table("", "Topology", *(["Ranks"] if chosen else []), "GB/s by dimension")
    table.columns[1].no_wrap = True
    for name in ("Step", *(["Cost"] if priced else []), "Simulated", "Gap"):
        table.add_column(name, justify="right")
    for each in designs:
        letter = [_letter(chosen.index(each["parallelisation"]))] if each["parallelisation"] else []
        row = [str(each["rank"]), each["topology"], *letter]
        row += [" + ".join(f"{part / 1e9:.4g}" for part in each["bandwidth"]), _seconds(each["weighted_step_time"])]
        row += [money(each["cost"])] if priced else []
        table.add_row(*row, *_simulated(each))
    yield table
    yield from (Text(f"{_letter(index)}  {each}") for index, each in enumerate(chosen))


def _letter(index: int) -> str:
    """a, b, ..., z, a1, b1, ..."""
    return chr(ord("a") + index % 26) + (str(index // 26) if index >= 26 else "")


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


def _dimensions(design: Data, saving: Callable[[float], str]) -> Table:
    table = _table("Dimension", "Technology")
    billed = bool(design["bill"])
    powered = any(each["watts"] is not None for each in design["bill"])
    for name in ("GB/s", "1 GB/s more saves", *(["Cost"] if billed else []), *(["Power"] if powered else [])):
        table.add_column(name, justify="right")
    for index, given in enumerate(design["bandwidth"]):
        items = [each for each in design["bill"] if each["dimension"] == index]
        cells = [f"{given / 1e9:.5g}", saving(design["shadow_prices"]["dimensions"][index] * 1e9)]
        if billed:
            parts = ", ".join(f"{each['part']} {money(each['dollars'])}" for each in items)
            cells.append(f"{money(sum(each['dollars'] for each in items))} ({parts})")
        if powered:
            cells.append(f"{sum(each['watts'] or 0 for each in items) / 1e3:,.4g} kW")
        table.add_row(design["topology"].split("_")[index], design["technologies"][index], *cells)
    return table


def _constraints(design: Data, saving: Callable[[float], str]) -> Iterator[Text]:
    """What loosening each binding limit buys."""
    for each in design["shadow_prices"]["constraints"]:
        step, what = (1e3, "1,000 $") if each["unit"] == "$" else (1e9, "1 GB/s")
        if abs(each["saves"]) * step > 1e-9 * max(design["value"], 1e-30):
            yield Text(f"{each['name']}: {what} more saves {saving(each['saves'] * step)}")
    dollar = design["shadow_prices"]["dollar"]
    if dollar and saving is _duration:
        yield Text(f"another 1,000 $ where they help most save {saving(dollar * 1e3)}")


def _duration(seconds: float) -> str:
    """`22.6 ms`, `-1 s`, or `nothing`."""
    if seconds == 0:
        return "nothing"
    return ("-" if seconds < 0 else "") + quantity.time(abs(seconds) * 1e9)


def _dollars(amount: float) -> str:
    return "nothing" if amount == 0 else money(amount)


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
    broken = [each for each in schemes if each["breaks"]]
    yield from (Text(f"{each['scheme']} breaks {'; '.join(each['breaks'])}") for each in broken)


def _seconds(seconds: float) -> str:
    return quantity.time(seconds * 1e9)


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for name in columns:
        table.add_column(name, overflow="fold")
    return table
