"""`armillary platform`: the platforms that come with Armillary, and what a platform amounts to."""

from __future__ import annotations

import json as json_text
from typing import Annotated

import typer

from .. import __version__
from ..platform import Platform, presets
from . import output
from .options import Json, Npus, Settings, settings

SCHEMA = "armillary.platforms/1"

app = typer.Typer(no_args_is_help=True, help="List the platforms at hand, or show one.", rich_markup_mode=None)

Name = Annotated[str, typer.Argument(metavar="P", help="Preset or platform file.")]


@app.command("list")
def list_(json: Json = None) -> None:
    """List the platforms that come with Armillary."""
    with output.guard():
        output.require_writable(json)
        rows = [_row(name) for name in presets()]
        keys = ("name", "npus", "topology", "source")
        head = {"schema": SCHEMA, "version": __version__}
        output.write_json(
            json, json_text.dumps({**head, "platforms": [dict(zip(keys, row, strict=True)) for row in rows]}, indent=2)
        )
        if json != "-":
            _show_list(rows)


def _row(name: str) -> tuple[str, int, str, str]:
    platform = Platform.load(name)
    return name, platform.npus, platform.describe()["fabric"].get("topology") or "graph", platform.source


def _show_list(rows: list[tuple[str, int, str, str]]) -> None:
    from rich.table import Table

    from ..report.terminal import emit

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("Name", no_wrap=True)
    table.add_column("NPUs", justify="right", no_wrap=True)
    table.add_column("Topology", overflow="fold")
    for name, npus, topology, _ in rows:
        short = topology.replace("FullyConnected", "FC").replace("Switch", "SW").replace("Ring", "R")
        table.add_row(name, f"{npus:,}", short)
    emit(output.console(), [table])


@app.command()
def show(name: Name, json: Json = None, npus: Npus = None, set_: Settings = None) -> None:
    """Show everything the simulator will use, defaults filled in."""
    with output.guard():
        output.require_writable(json)
        platform = Platform.load(name, settings(set_, npus))
        output.write_json(json, json_text.dumps(platform.describe(), indent=2))
        if json != "-":
            typer.echo(platform.to_yaml(), nl=False)
