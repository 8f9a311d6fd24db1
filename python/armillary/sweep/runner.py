"""One point: build workload and platform, or take those already built, simulate, keep the columns.

A runner lives in a worker. Workloads and platforms are kept by what they are made of, the least
recently used dropped."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar

import msgspec

from .. import api
from .._core import PanicException
from ..declared import Source
from ..errors import ArmillaryError, ImpossibleError, InputError, Problem
from ..platform import Platform
from ..workload import Workload, build, load
from ..workload.frameworks import settings_of
from ..workload.workload import is_text
from .columns import Claims, columns
from .points import Point
from .reader import study
from .source import located
from .study import SweepStudy

WORKLOADS = 8
"""Workloads kept: one may be large."""
PLATFORMS = 256

T = TypeVar("T")


class Finished(msgspec.Struct):
    """A point that was run: its columns, or what went wrong."""

    index: int
    values: list[Any]
    error: str | None
    results: dict[str, Any]
    impossible: bool = False
    """Whether the point can't exist, so that its error is not a fault: its values don't go
    together."""


_PROBLEMS = "problems"
ENCODER = msgspec.json.Encoder()
DECODER = msgspec.json.Decoder(Finished)


class Kept(Generic[T]):
    """The last few things made."""

    def __init__(self, most: int) -> None:
        self.most, self.found = most, OrderedDict[str, T]()

    def get(self, key: str, make: Callable[[], T]) -> T:
        """Value that is kept under `key`, made when it is not there."""
        if key in self.found:
            self.found.move_to_end(key)
            return self.found[key]
        made = self.found[key] = make()
        if len(self.found) > self.most:
            self.found.popitem(last=False)
        return made


class Runner:
    """Runs points of one study."""

    def __init__(self, of: SweepStudy, checks: bool = False) -> None:
        self.study, self.checks = of, checks
        self.workloads: Kept[tuple[Workload, Claims]] = Kept(WORKLOADS)
        self.platforms: Kept[Platform] = Kept(PLATFORMS)

    @classmethod
    def opened(cls, opening: bytes) -> Runner:
        """The runner that `opening` of another process describes."""
        task = json.loads(opening)
        return cls(study(Source(task["values"], task["file"], task["folder"])), task["check"])

    def answer(self, point: Point) -> bytes:
        """A point run, or only checked if that is what the runner is for, as the JSON of a
        `Finished`."""
        if not self.checks:
            return ENCODER.encode(self.run(point))
        problems = [(each.file, each.place, each.message, each.help) for each in self.check(point)]
        return ENCODER.encode(Finished(point[0], list(point[1]), None, {_PROBLEMS: problems}))

    def run(self, point: Point) -> Finished:
        """Simulates a point. Whatever goes wrong with it is its result."""
        index, values = point
        try:
            return Finished(index, list(values), None, self._results(self.study.at(values)))
        except ArmillaryError as error:
            impossible = isinstance(error, ImpossibleError)
            return Finished(index, list(values), _said(error), {}, impossible)
        except PanicException as error:
            return Finished(index, list(values), f"internal error: {error}", {})
        except Exception as error:  # one point must not end the others
            return Finished(index, list(values), f"{type(error).__name__}: {error}", {})

    def _results(self, wanted: Mapping[str, Any]) -> dict[str, Any]:
        """The columns of a run. Raises `ImpossibleError` for another number of ranks than there are
        NPUs."""
        (workload, claims), platform = self.workload(wanted), self.platform(wanted)
        try:
            result = api.simulate(
                workload,
                platform,
                backend=wanted["backend"],
                fold=wanted["fold"],
            )
        except InputError as error:
            if workload.ranks != platform.npus:
                raise ImpossibleError(error.problems) from None
            raise
        return columns(result.to_json(), claims)

    def check(self, point: Point) -> list[Problem]:
        """Everything that keeps a point from running, without simulating."""
        wanted = self.study.at(point[1])
        try:
            return api.check(
                self.workload(wanted)[0], self.platform(wanted), backend=wanted["backend"]
            )
        except ArmillaryError as error:
            return error.problems
        except PanicException as error:
            return [Problem("", "", f"internal error: {error}")]
        except Exception as error:  # a value of a type that nothing expects
            return [Problem("", "", f"{type(error).__name__}: {error}")]

    def workload(self, wanted: Mapping[str, Any]) -> tuple[Workload, Claims]:
        """The workload of a point and what is said of it."""
        chosen = {
            key.partition(".")[2]: each
            for key, each in wanted.items()
            if key.startswith("workload.")
        }
        text = "path" in chosen and is_text(self._path(chosen["path"]))
        on = (
            self.platform(wanted) if text else None
        )  # a text says what each rank does, the platform how many there are
        key = json.dumps([chosen, wanted if text else None], sort_keys=True)
        return self.workloads.get(key, lambda: self._workload(chosen, on))

    def _workload(self, chosen: dict[str, Any], on: Platform | None) -> tuple[Workload, Claims]:
        names = {
            key: self._path(chosen.pop(key)) for key in ("path", "groups", "model") if key in chosen
        }
        if "path" in names:
            passes = self._passes(chosen.pop("passes", 1))
            made = load(names["path"], on, names.get("groups"), passes, **chosen)
        else:
            made = build(names["model"], **chosen)
        return made, Claims.of(made)

    def _passes(self, passes: object) -> int:
        if isinstance(passes, int) and not isinstance(passes, bool):
            return passes
        raise InputError(
            [Problem(self.study.source.file, "passes", f"{passes!r} is not a whole number")]
        )

    def platform(self, wanted: Mapping[str, Any]) -> Platform:
        """The platform of a point."""
        chosen = {
            key.partition(".")[2]: each
            for key, each in wanted.items()
            if key.startswith("platform.")
        }
        options = {"framework": wanted.get("workload.framework")}
        chosen = {**settings_of(options), **chosen}
        return self.platforms.get(
            json.dumps(chosen, sort_keys=True), lambda: self._platform(chosen)
        )

    def _platform(self, chosen: dict[str, Any]) -> Platform:
        file = self._path(chosen.pop("file"))
        try:
            return Platform.load(file, chosen)
        except InputError as error:
            if _is_of_npus(file, chosen):
                raise ImpossibleError(error.problems) from None
            raise

    def _path(self, name: object) -> str:
        if not isinstance(name, str):
            raise InputError(
                [
                    Problem(
                        self.study.source.file, "", f"{name!r} is not a name", "a preset or a path"
                    )
                ]
            )
        return located(name, self.study.source.folder)


def _is_of_npus(file: str, chosen: Mapping[str, Any]) -> bool:
    """Whether a platform can't have this number of NPUs, and nothing else is wrong with it."""
    npus = chosen.get("npus")
    if not isinstance(npus, int) or isinstance(npus, bool) or npus < 1:
        return False
    try:
        Platform.load(file, {key: each for key, each in chosen.items() if key != "npus"})
    except InputError:
        return False
    return True


def opening(of: SweepStudy, check: bool = False) -> bytes:
    """Description from which another process makes the same runner, on one line; with `check`, one
    that runs nothing."""
    source = of.source
    return ENCODER.encode(
        {"values": source.values, "file": source.file, "folder": source.folder, "check": check}
    )


def problems_of(checked: Finished) -> list[Problem]:
    """Problems of a point that was checked."""
    if checked.error is not None:  # its worker has ended
        return [Problem("", "", checked.error)]
    return [Problem(*parts) for parts in checked.results[_PROBLEMS]]


def _said(error: ArmillaryError) -> str:
    """The first problems on one line, the rest counted."""
    shown = "; ".join(str(problem).replace("\n", " ") for problem in error.problems[:3])
    return shown + (f"; and {len(error.problems) - 3} more" if len(error.problems) > 3 else "")
