"""A study on a terminal: paper, ours, ratio, and the reasons below."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from .terminal import emit


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
    table = _table("Setup", "Backend", "Paper", "Ours", "Ratio", "Why", right=(2, 3, 4, 5))
    for row in rows:
        table.add_row(row["setup"], row["backend"], *cells(row), str(reasons.index(row["why"]) + 1))
    yield table
    yield Text("")
    for number, reason in enumerate(reasons, 1):
        yield Text(f"{number}  {reason}")


def cells(row: Mapping[str, Any]) -> tuple[str, str, str]:
    """Paper, ours and ratio of a row, as they are shown."""
    return _paper(row), f"{row['ours']:.2f} {row['unit']}", _ratio(row)


def _table(*columns: str, right: Sequence[int] = ()) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for index, name in enumerate(columns):
        table.add_column(name, justify="right" if index in right else "left", overflow="fold")
    return table


def _paper(row: Mapping[str, Any]) -> str:
    if row["paper"] is None:
        return "-"
    sign = "" if row["relation"] == "=" else f"{row['relation']} "
    return f"{sign}{row['paper']:g} {row['unit']}"


def _ratio(row: Mapping[str, Any]) -> str:
    if row["holds"] is not None:
        return "holds" if row["holds"] else "fails"
    return "-" if row["ratio"] is None else f"{row['ratio']:.3f}"
