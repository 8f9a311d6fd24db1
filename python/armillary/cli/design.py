"""`armillary design`: the best platform for workloads, a budget and constraints."""

from __future__ import annotations

from typing import Annotated

import typer

from ..units import counted
from . import output
from .options import Json, ReportName, Settings, typed_settings

Spec = Annotated[
    str,
    typer.Argument(metavar="SPEC.yml", help="Specification of the design (docs/guides/design.md)."),
]
Out = Annotated[
    str | None,
    typer.Option(
        "--output",
        "-o",
        metavar="FILE",
        help="Write the best design by simulation as a platform file; - for standard output.",
    ),
]
Schemes = Annotated[
    str | None,
    typer.Option(
        "--schemes",
        metavar="DIR",
        help="Write the platform file of each scheme into this directory.",
    ),
]
Rank = Annotated[
    int,
    typer.Option(
        "--rank",
        metavar="N",
        min=1,
        help="Number of the design that -o and --schemes write; 1 is the first in the list.",
    ),
]
Objective = Annotated[
    str | None,
    typer.Option(
        "--objective",
        metavar="step_time|performance_per_cost|cost|pareto",
        help="Objective, instead of that of the file.",
    ),
]
Simulate = Annotated[
    int | None,
    typer.Option(
        "--simulate",
        metavar="N",
        min=0,
        help="Least number of designs to simulate (default: 3).",
    ),
]
Budget = Annotated[
    str | None,
    typer.Option(
        "--budget",
        metavar="N|TIME",
        help="Limit for simulations: a number of designs or a time, such as 40 or 90s.",
    ),
]
Csv = Annotated[
    str | None,
    typer.Option("--csv", metavar="FILE", help="Write the table as CSV; - for standard output."),
]
Figures = Annotated[
    str | None,
    typer.Option(
        "--figures", metavar="DIR", help="Write every plot into this directory as SVG, PNG and CSV."
    ),
]


def design(
    spec: Spec,
    out: Out = None,
    schemes: Schemes = None,
    rank: Rank = 1,
    objective: Objective = None,
    simulate: Simulate = None,
    budget: Budget = None,
    csv: Csv = None,
    html: ReportName = None,
    figures: Figures = None,
    json: Json = None,
    set_: Settings = None,
) -> None:
    """Find the best platform for workloads and a budget.

    A model proves which topologies and bandwidths are best; simulations rank them."""
    from ..design import design as run

    with output.guard():
        outputs = {"--output": out, "--csv": csv, "--report": html, "--json": json}
        output.claim(outputs, spec, folders={"--schemes": schemes, "--figures": figures})
        limit = (
            int(budget)
            if budget is not None and budget.isdecimal() and len(budget) < 10
            else budget
        )
        changed = typed_settings(set_) or None
        given = {
            "objective": objective,
            "simulate": simulate,
            "budget": limit,
            "settings": changed,
        }
        with output.progress("designing", clock=False) as update:
            notify = None if update is None else lambda what, share: update(share, 0.0, what)
            found = run(
                spec,
                progress=notify,
                **{key: each for key, each in given.items() if each is not None},
            )
        if "-" not in outputs.values():
            from ..design import charts
            from ..report import words

            words.show(charts.page(found), output.console())
        if out is not None:
            output.write_platform(out, found.platform_file(rank - 1))
        if schemes is not None:
            written = counted(len(found.write_schemes(schemes, rank - 1)), "platform")
            output.log(f"{written} written to {schemes}")
        if csv is not None:
            output.write_csv(csv, found.to_csv())
        if html is not None:
            output.write_page(html, found.html())
        if figures is not None:
            output.log(f"{counted(len(found.write_figures(figures)), 'file')} written to {figures}")
        output.write_json(json, found.to_json())
