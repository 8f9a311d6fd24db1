"""The command line: one verb one file.

The file of a verb is loaded when the verb is used; that of every verb,
when a shell completes words."""

from __future__ import annotations

import difflib
import importlib
import os
from collections.abc import Collection, Sequence
from typing import Annotated, Any, cast

import typer

from .. import __version__, old_words
from ..errors import Problem
from . import groups, houses, output

_COMPLETION = "_ARMILLARY_COMPLETE"
"""Environment variable in which a shell asks for completions."""

_FILES = {"import": "import_"}
"""Verbs whose file has another name."""

_TAKE_MODELS = {"check", "compare", "convert", "explain", "run"}
"""Verbs that take a model where workloads can stand."""

# A family's options are known when the model is: they, and --help, are parsed then.
_HOW: dict[str, dict[str, Any]] = {
    "workload": {
        "add_help_option": False,
        "context_settings": {
            "ignore_unknown_options": True,
            "allow_extra_args": True,
            "help_option_names": [],
        },
    }
}
"""How typer reads a verb, where that differs."""


def application(
    verbs: Sequence[str] = groups.VERBS, words: Collection[str] | None = None
) -> typer.Typer:
    """The command line with these verbs alone, and of the options of models only those among
    `words`."""
    app = _empty()
    for verb in verbs:
        _add(app, verb, words)
    return app


def _listing() -> typer.Typer:
    """The command line as its help lists it: verbs with a line each. None can be run."""
    app = _empty()
    for lines in groups.GROUPS.values():
        for verb, line in lines.items():
            home = houses.HOMES.get(verb)
            absent = home is not None and not home.is_installed()
            app.command(verb, help=home.needed() if home is not None and absent else line)(_none)
    return app


def _none() -> None:
    """A verb that is listed only."""


def _empty() -> typer.Typer:
    app = typer.Typer(
        name="armillary",
        cls=groups.GroupedVerbs,
        help="Predicts how long a distributed training step takes, where the time goes, and why.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(_options)
    return app


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"armillary {__version__}")
        raise typer.Exit


def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Predicts how long a distributed training step takes, where the time goes, and why."""


# Handled before typer is loaded (see `main` of the package); here so that the help lists it.
def _astra_sim() -> None:
    """Run with ASTRA-sim's own flags and files."""


def _add(app: typer.Typer, verb: str, words: Collection[str] | None) -> None:
    """Loads the file of `verb` and adds its function or, where it has several, its commands."""
    if verb == "astra-sim":
        app.command(verb)(_astra_sim)
        return
    home = houses.HOMES.get(verb)
    if home is not None and not home.is_installed():
        app.command(verb, **houses.ANY_ARGUMENTS)(home.absent(verb))
        return
    name = _FILES.get(verb, verb)
    package = __package__ if home is None else f"{home.package}.cli"
    file = importlib.import_module(f"{package}.{name}")
    if hasattr(file, "app"):
        app.add_typer(file.app, name=verb)
        return
    called = getattr(file, name)
    if verb in _TAKE_MODELS:
        from .models import takes_models

        called = takes_models(called, words)
    app.command(verb, **{"cls": groups.HelpWithHeadings, **_HOW.get(verb, {})})(called)


_UsageError = cast(type[typer.BadParameter], typer.BadParameter.__mro__[1])
"""The base of typer's errors for wrong arguments, which typer does not export."""


def main(arguments: Sequence[str]) -> int:
    """Runs the verb that `arguments` name and returns its exit code. What the verb raises is its
    own guard's."""
    arguments, old = old_words.arguments(arguments)
    output.warn_of_words(old)
    if arguments and arguments[0] in groups.VERBS:
        app = application(arguments[:1], {word.partition("=")[0] for word in arguments})
    else:
        app = application() if _COMPLETION in os.environ else _listing()
    try:
        code = app(args=arguments, prog_name="armillary", standalone_mode=False)
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
    command = error.ctx.command
    if command.name in _TAKE_MODELS:  # `main` left out the options of models that were not given.
        whole = cast(groups.GroupedVerbs, typer.main.get_command(application([command.name])))
        command = whole.commands[command.name]
    options = [param for param in command.get_params(error.ctx) if param.opts[0].startswith("-")]
    near = difflib.get_close_matches(wrong, [name for param in options for name in param.opts], n=3)
    known = [param.opts[0] for param in options if not getattr(param, "hidden", False)]
    if len(known) < len(options):
        known.append("options of a model (armillary workload MODEL --help)")
    output.show_problems(
        [Problem("", error.ctx.command_path, f"no such option: {wrong}", ", ".join(near or known))]
    )
    return output.WRONG
