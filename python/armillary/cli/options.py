"""Options that several verbs share, so that they are called and explained alike."""

from __future__ import annotations

import re
from typing import Annotated

import typer

from .. import backends, documents
from ..errors import InputError, Problem
from . import completion

PlatformName = Annotated[
    str,
    typer.Option(
        "--platform",
        "-p",
        metavar="P",
        help="Preset (see `armillary platform list`) or platform file.",
        autocompletion=completion.platforms,
    ),
]
BackendName = Annotated[
    str | None,
    typer.Option(
        "--backend",
        metavar="NAME",
        help="; ".join(f"{name}: {about}" for name, about in backends.ALL.items())
        + "; external:COMMAND: a simulator in another process"
        + f". Default: network.model of the platform, else {backends.DEFAULT}.",
        autocompletion=completion.backends,
    ),
]
Groups = Annotated[
    str | None,
    typer.Option(
        "--groups",
        metavar="FILE",
        help='Communicator groups, {"1": [0, 1], ...}, if the traces only name them.',
    ),
]
Passes = Annotated[
    int,
    typer.Option(
        "--passes", metavar="N", min=1, help="Iterations of an ASTRA-sim 1.0 text workload."
    ),
]
Json = Annotated[
    str | None,
    typer.Option(
        "--json",
        metavar="FILE",
        help="Write the machine-readable result here; - for standard output.",
    ),
]
ReportName = Annotated[
    str | None,
    typer.Option(
        "--report",
        metavar="FILE",
        help="Write the report as one HTML page here; - for standard output.",
    ),
]
NoWhatIf = Annotated[
    bool,
    typer.Option("--no-what-if", help="Don't simulate the step again to find helpful changes."),
]
NoFold = Annotated[
    bool, typer.Option("--no-fold", help="Simulate every rank, even those that behave alike.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Override a platform value, such as scheduler.chunks=8.",
        autocompletion=completion.settings,
    ),
]
Npus = Annotated[
    int | None,
    typer.Option(
        "--npus",
        metavar="N",
        min=1,
        help="Resize the platform's outermost dimension, to N NPUs in total.",
    ),
]
Timeline = Annotated[
    str | None,
    typer.Option(
        "--timeline",
        metavar="FILE",
        help="Write a timeline here that Perfetto opens (ui.perfetto.dev).",
    ),
]
Ranks = Annotated[
    str | None,
    typer.Option(
        "--ranks",
        metavar="LIST",
        help="Ranks that the timeline shows, such as 0,1,64-71 or 0-56:8.",
    ),
]
Pcap = Annotated[
    str | None,
    typer.Option(
        "--pcap",
        metavar="FILE",
        help="Write the packets of --backend packet here; Wireshark opens the file.",
    ),
]
Skip = Annotated[
    str | None,
    typer.Option(
        "--skip",
        metavar="TOLERANCE",
        help="Skip steady states of --backend packet, such as 1%: network.packet.skip.",
    ),
]
WritePlan = Annotated[
    str | None,
    typer.Option(
        "--write-plan",
        metavar="FILE",
        help="Write the sharding plan here: the ranks of each embedding table, for --plan.",
    ),
]


def key_values(option: str, pairs: list[str] | None, example: str) -> dict[str, str]:
    """`KEY=VALUE` arguments as a mapping. Raises `InputError` listing those without `=`."""
    split = [pair.partition("=") for pair in pairs or []]
    wrong = [
        Problem("", f"{option} {key}", "has no '='", f"KEY=VALUE, such as {example}")
        for key, sign, _ in split
        if not sign
    ]
    if wrong:
        raise InputError(wrong)
    return {key.strip(): value.strip() for key, _, value in split}


def settings(pairs: list[str] | None, npus: int | None = None) -> dict[str, str]:
    """The pairs of `--set` as a mapping, with `npus` if given. Raises `InputError`."""
    given = key_values("--set", pairs, "scheduler.chunks=8")
    return given if npus is None else {**given, "npus": str(npus)}


def typed_settings(pairs: list[str] | None) -> dict[str, object]:
    """The same with values as a file has them. Raises `InputError`."""
    allowed = "KEY=VALUE, such as scheduler.chunks=8"
    return {
        key: documents.parse_yaml(value, f"--set {key}", allowed).value
        for key, value in settings(pairs).items()
    }


def rank_list(text: str | None, count: int) -> list[int] | None:
    """`0,1,64-71,128-1016:8` (every eighth) as ranks of `count`. Raises `InputError` naming every
    part that is none."""
    if text is None:
        return None
    parts = [part.strip() for part in text.split(",")]
    ends = [
        re.fullmatch(r"([0-9]{1,10})(?:-([0-9]{1,10})(?::([1-9][0-9]{0,9}))?)?", part)
        for part in parts
    ]
    spans = [
        range(int(end[1]), int(end[2] or end[1]) + 1, int(end[3] or 1)) if end else range(0)
        for end in ends
    ]
    wrong = [part for part, span in zip(parts, spans, strict=True) if not span or span[-1] >= count]
    if wrong:
        allowed = f"ranks and ranges from 0 to {count - 1}, such as 0,2-3,8-56:8"
        raise InputError(
            [Problem("", "--ranks", f'invalid ranks: "{part}"', allowed) for part in wrong]
        )
    return [rank for span in spans for rank in span]
