"""From a study's values to the `SweepStudy`, checked as far as no simulation is needed. All
problems go to the source.

Not here: YAML (`source.py`), kinds of values (`domain.py`), constraints' language
(`expression.py`)."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any

from .. import declared, documents, old_words
from ..declared import Allowed, Made, Note, Several, Short, Source, Within, Wrong
from ..documents import Path_
from ..errors import InputError, Problem
from ..platform import presets
from ..workload import Model, load_model
from ..workload.families import options, settable
from . import domain
from .columns import is_result
from .expression import ALLOWED, Expression, ExpressionError, compile_expression, value
from .source import Backend, located
from .study import MEMORY, MOST_POINTS, SweepParameter, SweepSearch, SweepStudy

_NAMES = ("path", "groups", "model")
"""Keys of `workload` that name something."""


def _condition(raw: object) -> Expression:
    try:
        return compile_expression(raw if isinstance(raw, str) else repr(raw))
    except ExpressionError as error:
        raise Wrong(f"{raw!r}: {error}", ALLOWED) from None


@dataclass(frozen=True, slots=True)
class _Course:
    """How a text runs: what can be fixed. A text checks the values itself."""

    passes: object = None
    overlap: object = None
    bucket_mb: object = None


_COURSE = tuple(each.name for each in fields(_Course))


@dataclass(frozen=True, slots=True)
class _Workload(_Course):
    path: str | None = None
    groups: str | None = None
    model: str | None = None
    options: Annotated[Mapping[str, object], Allowed("options of the model's family")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class _Platform:
    file: str | None = None
    npus: Annotated[int, Within(1, 2**63), Allowed("a whole number from 1")] | None = None
    settings: Annotated[Mapping[str, object], Allowed("keys of a platform file")] = field(
        default_factory=dict
    )


@dataclass(frozen=True, slots=True)
class _Study:
    name: Note = ""
    workload: Annotated[_Workload, Short("path")] = field(default_factory=_Workload)
    platform: Annotated[_Platform, Short("file")] = field(default_factory=_Platform)
    backend: Backend | None = None
    seed: Annotated[int, Within(0, 2**64 - 1), Allowed("a whole number from 0 to 2^64 - 1")] = 0
    fold: bool = True
    parameters: Annotated[Mapping[str, object], Allowed("parameters and their values")] = field(
        default_factory=dict
    )
    rows: Annotated[
        tuple[Annotated[Mapping[str, domain.Value], Within(1, 1000)], ...],
        Within(1, MOST_POINTS),
        Allowed("- {workload.tp: 8, platform.npus: 64}"),
    ] = ()
    constraints: Annotated[tuple[Annotated[Expression, Made(_condition)], ...], Several()] = ()
    search: Annotated[SweepSearch, Short("kind")] = field(default_factory=SweepSearch)


def study(source: Source) -> SweepStudy:
    """Reads a study. Raises `InputError` listing every problem."""
    found = _Reader(source, declared.read(_Study, source) or _Study()).study()
    source.finish()
    return found


class _Reader:
    """Checks one study as a whole; problems go to its source."""

    def __init__(self, source: Source, said: _Study) -> None:
        self.source, self.said = source, said

    def study(self) -> SweepStudy:
        said, parameters = self.said, self.parameters()
        row_names, rows = self.rows()
        names = (*row_names, *(each.name for each in parameters))
        targets = (*((name,) for name in row_names), *(each.targets for each in parameters))
        run = {"backend": said.backend, "seed": said.seed, "fold": said.fold}
        base = {**self.workload(targets), **self.platform(targets), **run}
        self.check_targets(base, names, targets, parameters, rows)
        self.check_search(parameters)
        aliases, scope = _aliases(names), self.scope(base)
        self.check_constraints({*scope, *aliases, MEMORY})
        return SweepStudy(
            name=said.name or Path(self.source.file).stem,
            source=self.source,
            base=base,
            parameters=parameters,
            columns=names,
            targets=targets,
            rows=rows,
            constraints=said.constraints,
            scope=scope,
            aliases=aliases,
            search=said.search,
        )

    def workload(self, targets: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
        """Fixed settings of the workload, a file or a model."""
        said = self.said.workload
        given = {key: getattr(said, key) for key in (*_NAMES, *_COURSE)}
        base = {f"workload.{key}": each for key, each in given.items() if each is not None}
        varied = {target for some in targets for target in some}
        kinds = [
            kind for kind in ("workload.path", "workload.model") if kind in base or kind in varied
        ]
        if len(kinds) != 1:
            message = "has both a path and a model" if kinds else "is missing"
            self.source.fault(("workload",), message, "path (and groups), or model (and options)")
        if said.options and "workload.path" in kinds:
            self.source.fault(("workload", "options"), "go with a model", "path and groups alone")
        return base | {f"workload.{key}": each for key, each in said.options.items()}

    def platform(self, targets: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
        """Fixed settings of the platform."""
        said = self.said.platform
        given = {"platform.file": said.file, "platform.npus": said.npus}
        base = {key: each for key, each in given.items() if each is not None}
        if said.file is not None:
            self.check_platform_file(said.file)
        elif not any("platform.file" in some for some in targets):
            self.source.fault(("platform",), "has no file", "a preset or a platform file")
        return base | {f"platform.{key}": each for key, each in said.settings.items()}

    def check_platform_file(self, name: str) -> None:
        """Refuses what is neither a preset nor a file."""
        found = located(name, self.source.folder)
        if found not in presets() and not documents.is_file(found):
            near = difflib.get_close_matches(name, presets(), n=5) or presets()
            message = f"{name}: there is no preset and no file of this name"
            allowed = f"a platform file, or a preset such as {', '.join(near)}"
            self.source.fault(("platform", "file"), message, allowed)

    def parameters(self) -> tuple[SweepParameter, ...]:
        """Parameters that vary, by name; the name is the target where no other is set."""
        found = []
        for name, raw in self.said.parameters.items():
            path = ("parameters", name)
            read: domain.Domain | None = declared.read_value(
                domain.Declared, self.source, path, raw, None
            )
            if read is not None:
                found.append(SweepParameter(name, read.set or (name,), read))
        return tuple(found)

    def rows(self) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
        """Points that the study lists, and their keys, which are the same in all of them."""
        rows = self.said.rows
        names = tuple(rows[0]) if rows else ()
        for index, row in enumerate(rows):
            if set(row) != set(names):
                allowed = f"as the first row: {', '.join(names)}"
                self.source.fault(("rows", index), f"has {', '.join(row)}", allowed)
        return names, tuple(tuple(row.get(name) for name in names) for row in rows)

    def check_targets(
        self,
        base: Mapping[str, Any],
        names: tuple[str, ...],
        targets: tuple[tuple[str, ...], ...],
        parameters: tuple[SweepParameter, ...],
        rows: tuple[tuple[Any, ...], ...],
    ) -> None:
        """Refuses what sets nothing, the same thing twice, or an option that no model here has."""
        row_names = names[: len(names) - len(parameters)]
        places = [
            *(("rows", 0, name) for name in row_names),
            *(("parameters", each.name) for each in parameters),
        ]
        known = self.workload_keys(base, names, targets, parameters, rows)
        seen: set[str] = set()
        for name, some, place in zip(names, targets, places, strict=True):
            if is_result(name):
                self.source.fault(
                    place,
                    f"{name} is a column of results",
                    "another name, with set: naming its key",
                )
            for target in some:
                self.check_target(target, place, known)
                if target in seen:
                    self.source.fault(
                        place,
                        f"{target} is set by another parameter too",
                        "one parameter for each key",
                    )
                seen.add(target)
        for key in base:
            if known is not None and key.startswith("workload.") and key not in known:
                self.unknown_option(key, ("workload", "options", key.partition(".")[2]), known)

    def check_target(self, target: str, place: Path_, known: set[str] | None) -> None:
        room, _, key = target.partition(".")
        if target == "seed":
            word = old_words.of("key", "sweep")["parameters.seed"]
            warnings.warn(word.warning, stacklevel=2)
        if target in ("backend", "seed") or (room == "platform" and key):
            return
        if room != "workload" or not key:
            self.source.fault(place, f"{target!r} can't be set", domain.TARGETS)
        elif known is not None and target not in known:
            self.unknown_option(target, place, known)

    def unknown_option(self, key: str, place: Path_, known: set[str]) -> None:
        name, names = key.partition(".")[2], sorted(each.partition(".")[2] for each in known)
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5) or names
        self.source.fault(place, f"{name} is not an option of this workload", ", ".join(near))

    def workload_keys(
        self,
        base: Mapping[str, Any],
        names: tuple[str, ...],
        targets: tuple[tuple[str, ...], ...],
        parameters: tuple[SweepParameter, ...],
        rows: tuple[tuple[Any, ...], ...],
    ) -> set[str] | None:
        """Settable keys of the workload; nothing when they are unknown."""
        keys = {"workload.path", "workload.groups", "workload.model"}
        if "workload.path" in base or any("workload.path" in some for some in targets):
            return {f"workload.{key}" for key in ("path", "groups", *_COURSE)}
        found: list[Any] = [base["workload.model"]] if "workload.model" in base else []
        for each in parameters:
            if "workload.model" in each.targets and isinstance(each.domain, domain.Values):
                found += each.domain.values
        for index, name in enumerate(names[: len(names) - len(parameters)]):
            found += [row[index] for row in rows] if name == "workload.model" else []
        models = [self.model(name) for name in found]
        if not models or None in models:
            return None
        return keys.union(
            *({f"workload.{key}" for key in settable(model.family)} for model in models if model)
        )

    def model(self, name: object) -> Model | None:
        """The model, or nothing and its problems."""
        if not isinstance(name, str):
            self.source.fault(
                ("workload", "model"), f"{name!r} is not a model", "a preset or a model file"
            )
            return None
        try:
            return load_model(located(name, self.source.folder))
        except InputError as error:
            place: Path_ = ("workload", "model") if self.workload_says(name) else ("parameters",)
            for problem in error.problems:
                self.source.fault(
                    place, str(Problem(name, problem.place, problem.message)), problem.help
                )
            return None

    def workload_says(self, model: str) -> bool:
        """Whether the study's fixed model is `model`, which else is a parameter's value."""
        return self.said.workload.model == model

    def scope(self, base: Mapping[str, Any]) -> dict[str, Any]:
        """Fixed values as constraints call them: by target, and options not given by default, and
        by key alone."""
        found: dict[str, Any] = {}
        if isinstance(name := base.get("workload.model"), str) and not self.source.problems:
            family = options(load_model(located(name, self.source.folder)).family)
            plain = {
                key: each.default
                for key, each in family.items()
                if each.default is not inspect.Parameter.empty
            }
            found |= {f"workload.{key}": each for key, each in plain.items() if each is not None}
        found |= base
        short = {
            key.partition(".")[2]: each
            for key, each in found.items()
            if key.startswith("workload.")
        }
        short |= {"npus": base["platform.npus"]} if "platform.npus" in base else {}
        return {key: value(each) for key, each in {**short, **found}.items()}

    def check_constraints(self, names: set[str]) -> None:
        """Refuses conditions about what the study does not have."""
        for index, each in enumerate(self.said.constraints):
            for name in each.names:
                if name not in names:
                    near = difflib.get_close_matches(name, sorted(names), n=3) or sorted(names)[:20]
                    message = f"unknown name {name} in {each.text!r}"
                    self.source.fault(("constraints", index), message, ", ".join(near))

    def check_search(self, parameters: tuple[SweepParameter, ...]) -> None:
        """Refuses a search that the parameters don't go with."""
        kind, rows = self.said.search.kind, bool(self.said.rows)
        if not parameters and (not rows or kind != "grid"):
            self.source.fault(("parameters",), "is missing: nothing varies", "parameters, or rows")
        if rows and kind != "grid":
            self.source.fault(("rows",), f"go with a grid, not with {kind}", "parameters alone")
        for each in parameters:
            self.check_domain(each, kind)

    def check_domain(self, parameter: SweepParameter, kind: str) -> None:
        found, place = parameter.domain, ("parameters", parameter.name)
        if isinstance(found, domain.Normal) and kind != "random":
            self.source.fault(
                place,
                f"a normal distribution is for random searches, not for {kind}",
                "values, or a range",
            )
        if (
            isinstance(found, domain.Range)
            and kind == "grid"
            and found.steps is None
            and not found.whole
        ):
            self.source.fault(place, "a grid of this range needs steps", "steps: 5")


def _aliases(names: tuple[str, ...]) -> dict[str, int]:
    """Every name a column goes by: its own, and the part after the last dot when no other column
    ends so."""
    last = [name.rpartition(".")[2] for name in names]
    short = {each: index for index, each in enumerate(last) if last.count(each) == 1}
    return short | {name: index for index, name in enumerate(names)}
