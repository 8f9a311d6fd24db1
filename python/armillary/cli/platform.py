"""`armillary platform`: the platforms that come with Armillary, and what a platform amounts to."""

from __future__ import annotations

import json as json_text
from typing import Annotated

import typer

from .. import __version__
from ..platform import Platform, presets
from ..platform.presets import description
from . import output
from .options import Json, Settings, settings

SCHEMA = "armillary.platforms/1"

app = typer.Typer(no_args_is_help=True, help="List the platforms at hand, or show one.", rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="P", help="Preset or platform file.")]


@app.command("list")
def list_(json: Json = None) -> None:
    """List the platforms that come with Armillary."""
    with output.guard():
        output.require_writable(json)
        rows = [(name, Platform.load(name).npus, description(name)) for name in presets()]
        keys = ("name", "npus", "description")
        head = {"schema": SCHEMA, "version": __version__}
        output.write_json(
            json, json_text.dumps({**head, "platforms": [dict(zip(keys, row, strict=True)) for row in rows]}, indent=2)
        )
        if json != "-":
            _show_list(rows)


def _show_list(rows: list[tuple[str, int, str]]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("Name", no_wrap=True)
    table.add_column("NPUs", justify="right")
    table.add_column("What it is")
    for name, npus, what in rows:
        table.add_row(name, f"{npus:,}", what)
    output.console().print(table)


@app.command()
def show(name: Name, json: Json = None, set_: Settings = None) -> None:
    """Show everything the simulator will use, defaults filled in."""
    with output.guard():
        output.require_writable(json)
        described = Platform.load(name, settings(set_)).describe()
        output.write_json(json, json_text.dumps(described, indent=2))
        if json != "-":
            typer.echo("\n".join(_lines(described)))


def _lines(value: object, depth: int = 0) -> list[str]:
    """Nested values as indented `key: value` lines."""
    if not isinstance(value, dict):
        return []
    lines = []
    for key, item in value.items():
        nested = isinstance(item, dict) and item
        lines.append("  " * depth + f"{key}:" + ("" if nested else f" {_plain(item)}"))
        lines += _lines(item, depth + 1)
    return lines


def _plain(item: object) -> str:
    return item if isinstance(item, str) else json_text.dumps(item)
