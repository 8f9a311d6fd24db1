"""A study on a terminal: reference, ours, ratio; sources and reasons below."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from armillary.report.terminal import emit


def show(study: Mapping[str, Any], console: Console) -> None:
    """Prints a study, as its JSON has it, to fit the console's width."""
    emit(console, _parts(study))


def show_list(studies: Sequence[Mapping[str, str]], console: Console) -> None:
    """Prints what there is to run."""
    table = _table("Study", "Code", "Title", "Source")
    for each in studies:
        table.add_row(each["name"], each["code"], each["title"], each["source"])
    emit(console, [table])


def _parts(study: Mapping[str, Any]) -> Iterator[RenderableType]:
    yield Text(f"{study['study']}  {study['title']}", "bold green")
    yield Text(study["source"])
    yield Text(study["setup"], "dim")
    yield Text("")
    rows: list[Mapping[str, Any]] = study["rows"]
    reasons = list(dict.fromkeys(row["why"] for row in rows))
    sources = list(dict.fromkeys(source(row) for row in rows))
    table = _table(
        "Setup", "Backend", "Reference", "Ours", "Ratio", "Source", "Why", right=(2, 3, 4, 5, 6)
    )
    for row in rows:
        kind = f"{row['source']['kind']} {_letter(sources.index(source(row)))}"
        number = reasons.index(row["why"]) + 1
        table.add_row(row["setup"], row["backend"], *cells(row), kind, str(number))
    yield table
    yield Text("")
    for index, each in enumerate(sources):
        yield Text(f"{_letter(index)}  {each}")
    yield Text("")
    for number, reason in enumerate(reasons, 1):
        yield Text(f"{number}  {reason}")


def cells(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Reference, ours and ratio of a row, as they are shown."""
    return _reference(row), f"{_number(row['ours'], row['reference'])} {row['unit']}", _ratio(row)


def source(row: Mapping[str, Any]) -> str:
    """Where the reference of a row is from, in words."""
    return f"{row['source']['kind']}: {row['source']['where']}"


def _letter(index: int) -> str:
    """a to z, then aa, ab and so on."""
    head = _letter(index // 26 - 1) if index >= 26 else ""
    return head + chr(ord("a") + index % 26)


def _table(*columns: str, right: Sequence[int] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index in right else "left", overflow="fold")
    return table


def _reference(row: Mapping[str, Any]) -> str:
    if row["reference"] is None:
        return "-"
    sign = "" if row["relation"] == "=" else f"{row['relation']} "
    return f"{sign}{row['reference']:g} {row['unit']}"


def _number(value: float, reference: float | None) -> str:
    """Four digits at least, two of them behind the point, and one more behind it than the
    reference has; counts as counts."""
    if float(value).is_integer() and (reference is None or float(reference).is_integer()):
        return f"{value:.0f}"
    leading = math.floor(math.log10(abs(value))) if value else 0
    fraction = f"{reference or 0:g}".partition(".")[2]
    return f"{value:.{min(max(2, 3 - leading, len(fraction) + 1), 6)}f}"


def _ratio(row: Mapping[str, Any]) -> str:
    if row["verdict"] == "below the margin":
        return f"holds by {100 * abs(row['ratio'] - 1):.2g} %: below the margin"
    if row["verdict"] is not None:
        return str(row["verdict"])
    return "-" if row["ratio"] is None else f"{row['ratio']:.3f}"
