"""From a study's values to the `SweepStudy`, checked as far as no simulation is needed. All
problems go to the source.

Not here: YAML (`source.py`), kinds of values (`domain.py`), constraints' language
(`expression.py`)."""

from __future__ import annotations

import difflib
import inspect
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .. import backends, documents, old_words
from ..declared import Source
from ..documents import Path_
from ..errors import InputError, Problem
from ..option_fields import parameters
from ..platform import presets
from ..workload import Model, load_model, texts
from ..workload.families import options, settable
from . import domain
from .columns import ALIASES, is_result
from .expression import ALLOWED, Expression, ExpressionError, compile_expression, value
from .source import located
from .study import KINDS, MEMORY, MOST_POINTS, SweepParameter, SweepSearch, SweepStudy

_KEYS = (
    "name",
    "workload",
    "platform",
    "backend",
    "seed",
    "fold",
    "parameters",
    "rows",
    "constraints",
    "search",
)
_NAMES = ("path", "groups", "model")
"""Keys of `workload` that name something."""
_COURSE = ("passes", *(each.name for each in parameters(texts.Options)))
"""How a text runs."""
_TARGETS = (
    "backend, workload.model, workload.path, workload.<option>, platform.file, "
    "platform.npus, platform.<key>"
)


def study(source: Source) -> SweepStudy:
    """Reads a study. Raises `InputError` listing every problem."""
    read = _Reader(source)
    found = read.study()
    source.finish()
    return found


def _mapping(source: Source, path: Path_, raw: object, keys: tuple[str, ...]) -> dict[str, Any]:
    """A mapping with no other keys than `keys`, or an empty one and a problem."""
    if not isinstance(raw, dict):
        source.fault(path, f"{raw!r} is not a mapping", ", ".join(keys))
        return {}
    for key in raw:
        if key not in keys:
            near = difflib.get_close_matches(str(key), keys, n=2)
            source.fault((*path, str(key)), "unknown key", ", ".join(near or keys))
    return raw


def _keys(source: Source, path: Path_, raw: Mapping[str, Any], allowed: str) -> dict[str, Any]:
    """The mapping at the last key of `path` in `raw`, with any keys; empty, with a problem, for
    anything else."""
    found = raw.get(str(path[-1]), {})
    if isinstance(found, dict):
        return found
    source.fault(path, f"{found!r} is not a mapping", allowed)
    return {}


class _Reader:
    """Reads one study; problems go to its source."""

    def __init__(self, source: Source) -> None:
        self.source, self.values = source, source.values

    def study(self) -> SweepStudy:
        _mapping(self.source, (), self.values, _KEYS)
        parameters = self.parameters()
        row_names, rows = self.rows()
        names = (*row_names, *(each.name for each in parameters))
        targets = (*((name,) for name in row_names), *(each.targets for each in parameters))
        base = {**self.workload(targets), **self.platform(targets), **self.run()}
        self.check_targets(base, names, targets, parameters, rows)
        search = self.search(parameters, bool(rows))
        aliases = _aliases(names)
        scope = self.scope(base)
        return SweepStudy(
            name=str(self.values.get("name", Path(self.source.file).stem)),
            source=self.source,
            base=base,
            parameters=parameters,
            columns=names,
            targets=targets,
            rows=rows,
            constraints=self.constraints({*scope, *aliases, MEMORY}),
            scope=scope,
            aliases=aliases,
            search=search,
        )

    def workload(self, targets: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
        """`workload: traces/gpt.%d.et`, `{path, groups}`, or `{model, options}`."""
        raw = self.values.get("workload", {})
        raw = {"path": raw} if isinstance(raw, str) else raw
        raw = _mapping(self.source, ("workload",), raw, (*_NAMES, *_COURSE, "options"))
        base = {f"workload.{key}": raw[key] for key in (*_NAMES, *_COURSE) if key in raw}
        for key, each in base.items():
            if key.partition(".")[2] in _COURSE:
                continue
            if not isinstance(each, str) or not each:
                self.source.fault(
                    ("workload", key.partition(".")[2]), f"{each!r} is not a name", "text"
                )
        chosen = _keys(self.source, ("workload", "options"), raw, "options of the model's family")
        varied = {target for some in targets for target in some}
        kinds = [
            kind for kind in ("workload.path", "workload.model") if kind in base or kind in varied
        ]
        if len(kinds) != 1:
            said = "has both a path and a model" if kinds else "is missing"
            self.source.fault(("workload",), said, "path (and groups), or model (and options)")
        if chosen and "workload.path" in kinds:
            self.source.fault(("workload", "options"), "go with a model", "path and groups alone")
        return base | {f"workload.{key}": each for key, each in chosen.items()}

    def platform(self, targets: tuple[tuple[str, ...], ...]) -> dict[str, Any]:
        """`platform: dgx-h100`, or `{file, npus, settings}`."""
        raw = self.values.get("platform", {})
        raw = {"file": raw} if isinstance(raw, str) else raw
        raw = _mapping(self.source, ("platform",), raw, ("file", "npus", "settings"))
        settings = _keys(self.source, ("platform", "settings"), raw, "keys of a platform file")
        base = {f"platform.{key}": raw[key] for key in ("file", "npus") if key in raw}
        if "platform.file" not in base and not any("platform.file" in some for some in targets):
            self.source.fault(("platform",), "has no file", "a preset or a platform file")
        if "platform.file" in base:
            self.platform_file(base["platform.file"])
        npus = raw.get("npus", 1)
        if not isinstance(npus, int) or isinstance(npus, bool) or npus < 1:
            self.source.fault(
                ("platform", "npus"), f"invalid number of NPUs: {npus!r}", "a whole number from 1"
            )
        return base | {f"platform.{key}": each for key, each in settings.items()}

    def platform_file(self, name: object) -> None:
        """Refuses what is neither a preset nor a file."""
        if not isinstance(name, str) or not name:
            self.source.fault(
                ("platform", "file"), f"{name!r} is not a name", "a preset or a platform file"
            )
            return
        found = located(name, self.source.folder)
        if found not in presets() and not documents.is_file(found):
            near = difflib.get_close_matches(name, presets(), n=5) or presets()
            allowed = f"a platform file, or a preset such as {', '.join(near)}"
            self.source.fault(
                ("platform", "file"),
                f"{name}: there is no preset and no file of this name",
                allowed,
            )

    def run(self) -> dict[str, Any]:
        """Backend (`None` for that of the platform), seed, folding."""
        found: dict[str, Any] = {"backend": None, "seed": 0, "fold": True}
        found |= {key: self.values[key] for key in found if key in self.values}
        if found["backend"] is not None and not backends.is_known(found["backend"]):
            allowed = ", ".join(backends.NAMES)
            self.source.fault(("backend",), f"unknown backend {found['backend']!r}", allowed)
        seed = found["seed"]
        if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**64:
            self.source.fault(
                ("seed",), f"invalid seed: {seed!r}", "a whole number from 0 to 2^64 - 1"
            )
        if not isinstance(found["fold"], bool):
            self.source.fault(("fold",), f"{found['fold']!r} is neither", "true, false")
        return found

    def parameters(self) -> tuple[SweepParameter, ...]:
        """Parameters that vary, by name; the name is the target where no other is set."""
        raw = self.values.get("parameters", {})
        if not isinstance(raw, dict):
            self.source.fault(
                ("parameters",), f"{raw!r} is not a mapping", "parameters and their values"
            )
            return ()
        return tuple(
            found
            for name, each in raw.items()
            if (found := self.parameter(str(name), each)) is not None
        )

    def parameter(self, name: str, raw: object) -> SweepParameter | None:
        path = ("parameters", name)
        targets: Any = name
        if isinstance(raw, dict) and "set" in raw:
            targets = raw["set"]
            raw = {key: each for key, each in raw.items() if key != "set"}
        targets = [targets] if isinstance(targets, str) else targets
        if (
            not isinstance(targets, list)
            or not targets
            or not all(isinstance(each, str) for each in targets)
        ):
            self.source.fault((*path, "set"), f"{targets!r} sets nothing", _TARGETS)
            return None
        found = domain.read(raw, self.source, path)
        return None if found is None else SweepParameter(name, tuple(targets), found)

    def rows(self) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
        """A list of points, each a mapping from target to value, all with the same keys."""
        raw = self.values.get("rows", [])
        if not isinstance(raw, list) or not all(isinstance(row, dict) and row for row in raw):
            self.source.fault(
                ("rows",), "is not a list of mappings", "- {workload.tp: 8, platform.npus: 64}"
            )
            return (), ()
        if not raw:
            if "rows" in self.values:
                self.source.fault(("rows",), "is empty", "at least one row")
            return (), ()
        names = tuple(map(str, raw[0]))
        for index, row in enumerate(raw):
            if set(map(str, row)) != set(names):
                self.source.fault(
                    ("rows", index),
                    f"has {', '.join(map(str, row))}",
                    f"as the first row: {', '.join(names)}",
                )
            for key, each in row.items():
                if not domain.is_value(each):
                    self.source.fault(
                        ("rows", index, str(key)), f"invalid value: {each!r}", domain.ALLOWED
                    )
        return names, tuple(tuple(row.get(name) for name in names) for row in raw)

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
            self.source.fault(place, f"{target!r} can't be set", _TARGETS)
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
        raw = self.values.get("workload")
        return isinstance(raw, dict) and raw.get("model") == model

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

    def constraints(self, names: set[str]) -> tuple[Expression, ...]:
        """Conditions a point must meet."""
        raw = self.values.get("constraints", [])
        raw = [raw] if isinstance(raw, str) else raw
        if not isinstance(raw, list):
            self.source.fault(
                ("constraints",), f"{raw!r} is not a list of conditions", "- tp * pp * dp == 1024"
            )
            return ()
        found = []
        for index, text in enumerate(raw):
            try:
                found.append(compile_expression(text if isinstance(text, str) else repr(text)))
            except ExpressionError as error:
                self.source.fault(("constraints", index), f"{text!r}: {error}", ALLOWED)
                continue
            for name in found[-1].names:
                if name not in names:
                    near = difflib.get_close_matches(name, sorted(names), n=3) or sorted(names)[:20]
                    self.source.fault(
                        ("constraints", index),
                        f"unknown name {name} in {text!r}",
                        ", ".join(near),
                    )
        return tuple(found)

    def search(self, parameters: tuple[SweepParameter, ...], rows: bool) -> SweepSearch:
        """Grid unless something else is said."""
        raw = self.values.get("search", "grid")
        raw = {"kind": raw} if isinstance(raw, str) else raw
        kind = raw.get("kind", "grid") if isinstance(raw, dict) else "grid"
        found = next((known for known in KINDS if known == kind), None)
        if found is None:
            self.source.fault(
                ("search", "kind"), f"unknown search {kind!r}", "grid, random, optuna"
            )
            return SweepSearch()
        extra = {"grid": (), "random": ("points",), "optuna": ("points", "batch")}[kind]
        raw = _mapping(self.source, ("search",), raw, ("kind", *extra, "minimize", "maximize"))
        if not parameters and (not rows or kind != "grid"):
            self.source.fault(("parameters",), "is missing: nothing varies", "parameters, or rows")
        if rows and kind != "grid":
            self.source.fault(("rows",), f"go with a grid, not with {kind}", "parameters alone")
        for each in parameters:
            self.check_domain(each, kind)
        points = 0 if kind == "grid" else self.whole("points", raw, None, MOST_POINTS)
        return SweepSearch(
            found, points, self.objectives(raw, kind == "optuna"), self.whole("batch", raw, 8, 1024)
        )

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

    def whole(self, key: str, raw: Mapping[str, Any], default: int | None, most: int) -> int:
        each = raw.get(key, default)
        if not isinstance(each, int) or isinstance(each, bool) or not 1 <= each <= most:
            said = "is missing" if each is None else f"{each!r} is out of range"
            self.source.fault(("search", key), said, f"a whole number from 1 to {most:,}")
            return 1
        return each

    def objectives(self, raw: Mapping[str, Any], needed: bool) -> tuple[tuple[str, bool], ...]:
        """Columns to make small or large."""
        found: list[tuple[str, bool]] = []
        for key, more in (("minimize", False), ("maximize", True)):
            names = raw.get(key, [])
            for name in (
                [names] if isinstance(names, str) else names if isinstance(names, list) else [None]
            ):
                column = ALIASES.get(name, name) if isinstance(name, str) else ""
                if not is_result(column, numbers=True):
                    allowed = "step_time_ns, mfu, memory, ...: docs/guides/sweep.md"
                    self.source.fault(
                        ("search", key), f"{name!r} is not a column of numbers", allowed
                    )
                elif column in (each for each, _ in found):
                    self.source.fault(("search", key), f"{name} is there twice", "each column once")
                else:
                    found.append((column, more))
        if needed and not found and not ("minimize" in raw or "maximize" in raw):
            self.source.fault(("search",), "has no objective", "minimize: step_time_ns")
        return tuple(found)


def _aliases(names: tuple[str, ...]) -> dict[str, int]:
    """Every name a column goes by: its own, and the part after the last dot when no other column
    ends so."""
    last = [name.rpartition(".")[2] for name in names]
    short = {each: index for index, each in enumerate(last) if last.count(each) == 1}
    return short | {name: index for index, name in enumerate(names)}
