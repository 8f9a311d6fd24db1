"""`armillary platform`: lists presets, shows what a platform is resolved to and how long its memory
takes, imports networks and tables."""

from __future__ import annotations

import json as json_text
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import __version__
from ..errors import InputError, Problem
from ..platform import Platform, from_astra_sim, presets, read_gemm_table
from ..units import GB, counted
from . import completion, output
from .options import Json, Npus, Settings, key_values, settings

if TYPE_CHECKING:
    from .. import wiring
    from ..network import Network

SCHEMA = "armillary.platforms/1"
ACCESS_SCHEMA = "armillary.access/1"
TABLE_SCHEMA = "armillary.gemm_table/1"
IMPORT_SCHEMA = "armillary.platform_import/1"

app = typer.Typer(
    no_args_is_help=True,
    help="List, show or import platforms, and price accesses to memory.",
    rich_markup_mode=None,
)

Name = Annotated[
    str,
    typer.Argument(
        metavar="P", help="Preset or platform file.", autocompletion=completion.platforms
    ),
]


@app.command("list")
def list_(
    all_: Annotated[
        bool, typer.Option("--all", help="Also list the platforms of papers, paper-*.")
    ] = False,
    json: Json = None,
) -> None:
    """List the platforms that come with Armillary."""
    with output.guard():
        output.claim({"--json": json})
        rows = [_row(name) for name in presets(papers=all_)]
        keys = ("name", "npus", "topology", "source", "measured")
        head = {"schema": SCHEMA, "version": __version__}
        output.write_json(
            json,
            json_text.dumps(
                {**head, "platforms": [dict(zip(keys, row, strict=True)) for row in rows]}, indent=2
            ),
        )
        if json != "-":
            _show_list(rows)


def _row(name: str) -> tuple[str, int, str, str, str]:
    platform = Platform.load(name)
    described = platform.describe()
    return (
        name,
        platform.npus,
        _topology(described["fabric"]),
        platform.source,
        described["measured"] or "none",
    )


def _topology(fabric: dict[str, Any]) -> str:
    return str(fabric.get("topology") or fabric.get("generator") or "graph")


def _show_list(rows: list[tuple[str, int, str, str, str]]) -> None:
    from ..blocks import BLOCKS
    from ..report import words
    from ..report.parts import Table

    cells = []
    for name, npus, topology, _, measured in rows:
        short = topology
        for block in BLOCKS.values():
            short = short.replace(f"{block.name}(", f"{block.short}(")
        cells.append((name, short, f"{npus:,}", "no" if measured == "none" else "yes"))
    table = Table("Presets", ("Name", "Topology", "NPUs", "Measured"), cells, labels=2)
    words.show_table(table, output.console())


Svg = Annotated[
    str | None,
    typer.Option("--svg", metavar="FILE", help="Draw the network; - for standard output."),
]
Dot = Annotated[
    str | None,
    typer.Option(
        "--dot",
        metavar="FILE",
        help="Write all nodes and links for Graphviz; - for standard output.",
    ),
]


@app.command()
def show(
    name: Name,
    json: Json = None,
    svg: Svg = None,
    dot: Dot = None,
    npus: Npus = None,
    set_: Settings = None,
) -> None:
    """Show everything the simulator will use, defaults filled in, and where each value comes
    from."""
    with output.guard():
        output.claim({"--json": json, "--svg": svg, "--dot": dot}, name)
        platform, text = Platform.explain(name, settings(set_, npus))
        for warning in platform.warnings:
            output.log(f"warning: {warning}")
        output.write_json(json, json_text.dumps(platform.describe(), indent=2))
        _draw(platform, svg, dot)
        if "-" not in (json, svg, dot):
            for line in _facts(platform.network_facts()):
                typer.echo(f"# {line}")
            typer.echo(text, nl=False)


def _draw(platform: Platform, svg: str | None, dot: str | None) -> None:
    """The network of a platform as files for people."""
    if svg is not None:
        from ..report.platform_picture import of_platform

        output.write_drawing(svg, of_platform(platform.describe(), platform.picture()))
    if dot is not None:
        from ..report import graphviz

        output.write_drawing(dot, graphviz.dot(platform.name, platform.wiring()))


def _facts(facts: dict[str, Any]) -> list[str]:
    """Size of a network and what it can carry, as lines of text."""
    if not facts:
        return []
    from ..report.quantity import bandwidth

    counts = [counted(facts["npus"], "NPU")]
    if any(facts["switches"]):
        tiers = " + ".join(f"{n:,}" for n in facts["switches"] if n)
        counts.append(f"{tiers} {'switch' if tiers == '1' else 'switches'}")
    counts.append(f"{facts['links']:,} one-way links")
    if facts["diameter"] is not None:
        counts.append(f"at most {facts['diameter']:,} links between two NPUs")
    lines = [", ".join(counts)]
    if facts["bisection"] is not None:
        lines.append(f"bisection, lower to upper ranks: {bandwidth(facts['bisection'] / GB)}")
    return lines


class Location(StrEnum):
    """Memories that an access can go to."""

    local = "local"
    remote = "remote"
    host = "host"
    disk = "disk"
    in_switch = "in_switch"


@app.command()
def access(
    name: Name,
    size: Annotated[
        str, typer.Option("--bytes", "-b", metavar="SIZE", help="Bytes of each access: 64MB.")
    ],
    location: Annotated[
        Location, typer.Option("--location", help="The memory that is accessed.")
    ] = Location.remote,
    store: Annotated[bool, typer.Option("--store", help="Store instead of load.")] = False,
    by: Annotated[
        int | None,
        typer.Option(
            "--by",
            metavar="N",
            min=1,
            help="NPUs 0 to N-1 access it at the same time (default: all).",
        ),
    ] = None,
    json: Json = None,
    npus: Npus = None,
    set_: Settings = None,
) -> None:
    """Show how long an access to memory takes while some NPUs, or all, do the same."""
    with output.guard():
        output.claim({"--json": json}, name)
        platform = Platform.load(name, settings(set_, npus))
        if by is not None and by > platform.npus:
            said = f"{by:,} of {counted(platform.npus, 'NPU')}"
            raise InputError([Problem("", "--by", said, f"1 to {platform.npus:,}")])
        if location is Location.in_switch and by not in (None, platform.npus):
            said = f"{by:,}, but switches gather the shards of all {platform.npus:,} NPUs"
            raise InputError([Problem("", "--by", said, "none, or another location")])
        priced = _Priced(size, location, store, by or platform.npus)
        times = priced.times(platform)
        output.write_json(json, json_text.dumps(priced.as_dict(platform, times), indent=2))
        for warning in platform.warnings:
            output.log(f"warning: {warning}")
        if json != "-":
            typer.echo(priced.sentence(platform, times))


@dataclass(frozen=True)
class _Priced:
    """Equal accesses of several NPUs that begin together."""

    size: str
    location: Location
    store: bool
    by: int

    def times(self, platform: Platform) -> list[int]:
        """Picoseconds until each one is over, in the order of the NPUs."""
        from ..network import Network

        times = [0] * self.by
        with Network(platform) as network:
            for npu in range(self.by):
                over = partial(self._note, network, times, npu)
                network.access(npu, self.size, self.location.value, over, store=self.store)
            network.run()
        return times

    @staticmethod
    def _note(network: Network, times: list[int], npu: int) -> None:
        times[npu] = network.now

    def as_dict(self, platform: Platform, times: Sequence[int]) -> dict[str, Any]:
        """The result for programs."""
        return {
            "schema": ACCESS_SCHEMA,
            "version": __version__,
            "platform": platform.name,
            "size": self.size,
            "location": self.location.value,
            "store": self.store,
            "npus": platform.npus,
            "by": self.by,
            "first_ns": min(times) / 1e3,
            "last_ns": max(times) / 1e3,
            "warnings": platform.warnings,
        }

    def sentence(self, platform: Platform, times: Sequence[int]) -> str:
        """The result for people."""
        from ..report.quantity import time

        first, last = (time(each / 1e3) for each in (min(times), max(times)))
        what = "store" if self.store else "load"
        who = f"{self.by:,} of {counted(platform.npus, 'NPU')}"
        early = f", the first one {first}" if first != last else ""
        return f"{what} of {self.size}, {self.location.value}, by {who} at once: {last}{early}"


class Format(StrEnum):
    """Formats of files that can be imported."""

    nccl = "nccl"
    smi = "nvidia-smi"
    rocm = "rocm-smi"
    infragraph = "infragraph"
    slurm = "slurm"
    blocks = "slurm-blocks"
    infiniband = "infiniband"
    iblinkinfo = "iblinkinfo"


@app.command("import")
def import_(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE",
            help="NCCL's topology, nvidia-smi topo -m, rocm-smi --showtopo, InfraGraph, "
            "topology.conf of Slurm, ibnetdiscover or iblinkinfo, or ASTRA-sim 1.0 (--system).",
        ),
    ],
    out: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            metavar="PLATFORM",
            help="Write the platform here; - for standard output.",
        ),
    ],
    format_: Annotated[
        Format | None, typer.Option("--format", help="Format of FILE (default: by its content).")
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            "--system", metavar="FILE", help="ASTRA-sim 1.0's system file; FILE is its network."
        ),
    ] = None,
    nodes: Annotated[
        int, typer.Option("--nodes", min=1, max=4096, help="Number of nodes like the one in FILE.")
    ] = 1,
    rails: Annotated[
        bool, typer.Option("--rails", help="Join cards of one number, instead of all cards.")
    ] = False,
    cards: Annotated[
        str | None,
        typer.Option(
            "--cards", metavar="NAME,...", help="Network cards to use (default: near GPUs)."
        ),
    ] = None,
    gpu: Annotated[
        str | None,
        typer.Option("--gpu", metavar="NAME", help="GPU, where FILE does not say it: H100."),
    ] = None,
    assume: Annotated[
        list[str] | None,
        typer.Option(
            "--assume", metavar="NAME=VALUE", help="A value that FILE lacks: nvlink='25 GB/s'."
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Turn a network that another program describes into a platform file."""
    from .. import wiring

    with output.guard():
        output.claim({"--json": json, "--output": out}, str(file))
        given = key_values("--assume", assume, "nvlink='25 GB/s'")
        if system is not None:
            _only_system(format_, nodes, rails, cards, gpu, assume)
            made = from_astra_sim(file, system)
            counts = (made.platform.npus, made.platform.network_facts()["links"])
            found = wiring.Imported(made.text, "astra-sim-1.0", *counts, made.warnings, ())
            _show_import(found, out, json)
            return
        imported = wiring.import_file(
            file,
            name=Path(out).stem if out != "-" else file.stem,
            assumed=wiring.Assumed(given, gpu),
            format_=format_,
            nodes=nodes,
            rails=rails,
            cards=[card for card in (cards or "").split(",") if card],
        )
        # It must read back before it is written.
        Platform.parse(imported.text, str(file))
        _show_import(imported, out, json)


def _only_system(
    format_: Format | None,
    nodes: int,
    rails: bool,
    cards: str | None,
    gpu: str | None,
    assume: list[str] | None,
) -> None:
    """Refuses options of other formats next to `--system`."""
    given = {
        "--format": format_,
        "--nodes": nodes > 1,
        "--rails": rails,
        "--cards": cards,
        "--gpu": gpu,
        "--assume": assume,
    }
    message = "has no meaning with --system"
    problems = [
        Problem("", flag, message, "leave it out") for flag, is_set in given.items() if is_set
    ]
    if problems:
        raise InputError(problems)


def _show_import(imported: wiring.Imported, out: str, json: str | None) -> None:
    for warning in imported.warnings:
        output.log(f"warning: {warning}")
    for remark in imported.remarks:
        output.log(f"note: {remark}")
    for name, value, source in imported.assumed:
        output.log(f"assumed: {name} = {value} ({source})")
    output.write_platform(out, imported.text)
    assumed = [
        dict(zip(("name", "value", "source"), each, strict=True)) for each in imported.assumed
    ]
    found = {
        "format": imported.format,
        "npus": imported.npus,
        "links": imported.links,
        "warnings": list(imported.warnings),
        "remarks": list(imported.remarks),
        "assumed": assumed,
    }
    head = {"schema": IMPORT_SCHEMA, "version": __version__, "platform": out}
    output.write_json(json, json_text.dumps({**head, **found}, indent=2))
    if "-" not in (out, json):
        typer.echo(
            f"{out}: {counted(imported.npus, 'NPU')}, {counted(imported.links, 'link')}, from "
            f"{imported.format}"
        )


@app.command("import-gemm")
def import_gemm(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV or JSON with m, n, k and a time or TFLOP/s.")
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="TABLE",
            help="Write the table here, such as gemm.csv; - for standard output.",
        ),
    ],
    where: Annotated[
        list[str] | None,
        typer.Option(
            "--where", metavar="KEY=VALUE", help="Only rows with this value in this column."
        ),
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(
            "--width", min=1, max=255, help="Bytes of an element, if the list does not give them."
        ),
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            "--time", metavar="COLUMN", help="Column with the time, if there are several."
        ),
    ] = None,
    json: Json = None,
) -> None:
    """Turn a list of measured matrix multiplications into a table for npu.compute: {model:
    measured}."""
    with output.guard():
        output.claim({"--json": json, "--output": str(out)}, str(file))
        table = read_gemm_table(
            file, where=key_values("--where", where, "gpu=A100"), width=width, time=time
        )
        output.write_csv(str(out), table.to_csv())
        counts = {
            "shapes": len(table.times),
            "measurements": table.measurements,
            "skipped": table.skipped,
        }
        head = {"schema": TABLE_SCHEMA, "version": __version__, "table": str(out)}
        output.write_json(json, json_text.dumps({**head, **counts}, indent=2))
        if "-" not in (json, str(out)):
            typer.echo(f"{out}: {len(table.times)} shapes from {table.measurements} measurements")
