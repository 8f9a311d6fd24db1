"""The command line: one verb one file."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from typing import Annotated, cast

import typer

from .. import __version__
from ..errors import Problem
from . import (
    bench,
    calibrate,
    check,
    checkpoint,
    collective,
    compare,
    convert,
    design,
    explain,
    groups,
    import_,
    ingest,
    models,
    output,
    plan,
    platform,
    report,
    run,
    study,
    sweep,
    traffic,
    train,
    workload,
)

app = typer.Typer(
    name="armillary",
    cls=groups.GroupedVerbs,
    help="Predicts how long a distributed training step takes, where the time goes, and why.",
    no_args_is_help=True,
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
    """Run with ASTRA-sim's own flags and files."""


app.command("run")(models.takes_models(run.run))
app.command("collective")(collective.collective)
app.command("traffic")(traffic.traffic)
# Handled before typer is loaded (see `main`); named here so that the help lists it.
app.command("astra-sim")(_astra_sim)
app.command("workload", context_settings=workload.SETTINGS, add_help_option=False)(
    workload.workload
)
app.command("convert")(models.takes_models(convert.convert))
app.command("study")(study.study)
app.command("sweep")(sweep.sweep)
app.command("design")(design.design)
app.command("plan")(plan.plan)
app.command("ingest")(ingest.ingest)
app.command("train")(train.train)
app.command("report")(report.report)
app.command("explain")(models.takes_models(explain.explain))
app.command("compare")(models.takes_models(compare.compare))
app.command("bench")(bench.bench)
app.command("calibrate")(calibrate.calibrate)
app.command("check")(models.takes_models(check.check))
app.command("import")(import_.import_)
app.add_typer(platform.app, name="platform")
app.add_typer(checkpoint.app, name="checkpoint")


_UsageError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])
"""The base of typer's errors for wrong arguments, which typer does not export."""


_OLD = {
    ("calibrate", "--out"): "--output",
    ("design", "--html"): "--report",
    ("platform", "--out"): "--output",
    ("study", "--html"): "--report",
}
"""Names that options had until 0.1, by verb. They are read for one release."""


def _current(arguments: Sequence[str]) -> Iterator[str]:
    """The arguments with today's names of options; a warning for each old one."""
    for argument in arguments:
        name, sign, value = argument.partition("=")
        new = _OLD.get((arguments[0], name))
        if new is not None:
            output.log(f"warning: {name} is now called {new}")
        yield argument if new is None else f"{new}{sign}{value}"


def main(arguments: Sequence[str]) -> int:
    """Runs the verb that `arguments` name and returns its exit code. What the verb raises is its
    own guard's."""
    try:
        code = app(args=list(_current(arguments)), prog_name="armillary", standalone_mode=False)
    except _UsageError as error:
        return _refuse(error)
    if (
        code == output.INTERRUPTED
    ):  # Ctrl-C outside of any verb, which typer turns into its exit code
        output.interrupted(KeyboardInterrupt())
    return code if isinstance(code, int) else 0


def _refuse(error: typer.BadParameter) -> int:
    """Reports what is wrong with the arguments; for an unknown option also the known ones."""
    wrong = getattr(error, "option_name", None)
    if error.ctx is None or wrong is None or not wrong.startswith("-"):
        error.show()
        return output.WRONG
    options = [
        param for param in error.ctx.command.get_params(error.ctx) if param.opts[0].startswith("-")
    ]
    near = difflib.get_close_matches(wrong, [name for param in options for name in param.opts], n=3)
    known = [param.opts[0] for param in options if not getattr(param, "hidden", False)]
    if len(known) < len(options):
        known.append("options of a model (armillary workload MODEL --help)")
    output.show_problems(
        [Problem("", error.ctx.command_path, f"no such option: {wrong}", ", ".join(near or known))]
    )
    return output.WRONG
