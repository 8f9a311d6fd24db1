"""The command line: one verb one file."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from . import (
    calibrate,
    check,
    collective,
    compare,
    convert,
    design,
    explain,
    import_,
    platform,
    report,
    run,
    study,
    sweep,
    workload,
)

app = typer.Typer(
    name="armillary",
    help="Predicts how long a distributed training step takes, where the time goes, and why.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"armillary {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Predicts how long a distributed training step takes, where the time goes, and why."""


def _astra_sim() -> None:
    """Take ASTRA-sim's own flags and files."""


app.command("run")(run.run)
app.command("collective")(collective.collective)
# Handled before typer is loaded (see `main`); named here so that the help lists it.
app.command("astra-sim")(_astra_sim)
app.command("workload", context_settings=workload.SETTINGS, add_help_option=False)(workload.workload)
app.command("convert")(convert.convert)
app.command("study")(study.study)
app.command("sweep")(sweep.sweep)
app.command("design")(design.design)
app.command("report")(report.report)
app.command("explain")(explain.explain)
app.command("compare")(compare.compare)
app.command("calibrate")(calibrate.calibrate)
app.command("check")(check.check)
app.command("import")(import_.import_)
app.add_typer(platform.app, name="platform")
