"""The workloads of a specification: read or generated, with every parallelisation that is to be
tried.

An entry names a `model` with its options, a `path`, or a `libra` text with its `communicator`. An
option given as a list is a choice; `dp` is what is left of the NPUs where it is not given.
Combinations that do not fit the model, the NPUs or their memory are left out and counted."""

from __future__ import annotations

import difflib
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from .. import _core, documents
from ..declared import Source
from ..documents import Path_
from ..errors import ArmillaryError, InputError, Problem
from ..estimate.terms import Job
from ..estimate.topology import Topology
from ..platform import Platform
from ..units import GB, UNITS, base, counted, split
from ..workload import Workload, build, load, load_model
from ..workload.families import settable
from ..workload.workload import is_text
from . import libra, overlap
from .task import ParallelismChoice

_OWN = (
    "name",
    "model",
    "path",
    "groups",
    "passes",
    "libra",
    "communicator",
    "weight",
    "time_bound",
    "overlap",
    "near",
)
_KINDS = ("model", "path", "libra")
_MOST_CHOICES = 2000


def choices(
    source: Source,
    npus: int,
    settings: Mapping[str, object],
    limit: float | None,
    topology: Topology,
    paper: bool = False,
    progress: Callable[[float], None] | None = None,
) -> tuple[tuple[ParallelismChoice, ...], tuple[str, ...]]:
    """Every combination of the workloads' parallelisations, and notes on what was left out.
    Problems go to `source`.

    The paper's model (`paper`) needs no overlap measured.
    """
    raw = source.values.get("workloads")
    if not isinstance(raw, list) or not raw:
        source.fault(
            ("workloads",),
            "is missing" if raw is None else f"{raw!r} is not a list",
            "a list of workloads",
        )
        return (), ()
    lists, notes = [], []
    for index, each in enumerate(raw):
        report = (
            None
            if progress is None
            else _within(progress, index / len(raw), (index + 1) / len(raw))
        )
        reader = _Entry(
            source, ("workloads", index), each, npus, settings, limit, topology, paper, report
        )
        lists.append(list(reader.jobs()))
        notes += reader.notes
    _unique(source, lists)
    count = math.prod(map(len, lists))
    if count > _MOST_CHOICES:
        source.fault(
            ("workloads",),
            f"{count:,} combinations of parallelisations",
            f"up to {_MOST_CHOICES:,}",
        )
        return (), ()
    return tuple(_choice(some) for some in itertools.product(*lists)), tuple(notes)


def _within(progress: Callable[[float], None], begin: float, end: float) -> Callable[[float], None]:
    """Progress of a part of the work."""
    return lambda share: progress(begin + (end - begin) * share)


def _choice(some: Sequence[tuple[Job, str]]) -> ParallelismChoice:
    named = [f"{each.name} {text}" if len(some) > 1 else text for each, text in some if text]
    return ParallelismChoice(tuple(each for each, _ in some), "; ".join(named))


def _unique(source: Source, lists: Sequence[Sequence[tuple[Job, str]]]) -> None:
    names = [some[0][0].name for some in lists if some]
    for index, name in enumerate(names):
        if name in names[:index]:
            source.fault(
                ("workloads", index),
                f"has the name {name!r} of another workload",
                "name: a unique name",
            )


class _Entry:
    """Reads one workload."""

    def __init__(
        self,
        source: Source,
        path: Path_,
        raw: object,
        npus: int,
        settings: Mapping[str, object],
        limit: float | None,
        topology: Topology,
        paper: bool,
        progress: Callable[[float], None] | None,
    ) -> None:
        self.source, self.path, self.npus, self.settings, self.limit = (
            source,
            path,
            npus,
            settings,
            limit,
        )
        self.topology, self.paper, self.progress = topology, paper, progress
        self.values: dict[str, Any] = (
            {"model": raw} if isinstance(raw, str) else raw if isinstance(raw, dict) else {}
        )
        self.notes: list[str] = []

    def jobs(self) -> Iterator[tuple[Job, str]]:
        """The workload under each parallelisation, with its text."""
        kinds = [key for key in _KINDS if key in self.values]
        if len(kinds) != 1:
            self.fault(
                (), "names " + (" and ".join(kinds) or "no workload"), "one of model, path, libra"
            )
            return
        if not isinstance(self.values[kinds[0]], str):
            self.fault((kinds[0],), f"{self.values[kinds[0]]!r} is not a name", "text")
            return
        self.weight = self.number("weight", 1.0)
        self.limit = self.seconds() if "time_bound" in self.values else self.limit
        try:
            yield from self.modelled() if kinds == ["model"] else self.recorded(kinds[0])
        except ArmillaryError as error:
            self.source.problems.extend(error.problems)

    def fault(self, path: Path_, message: str, allowed: str = "") -> None:
        self.source.fault((*self.path, *path), message, allowed)

    def number(self, key: str, default: float) -> float:
        value = self.values.get(key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= 1e12:
            self.fault((key,), f"{value!r} is not a number above 0", "such as 1 or 0.5")
            return default
        return float(value)

    def seconds(self) -> float | None:
        text = self.values["time_bound"]
        parted = split(text) if isinstance(text, str) else None
        if parted is None or UNITS[parted[1]][0] != "s" or parted[0] <= 0:
            self.fault(("time_bound",), f"{text!r} is not a time above 0", "such as 1.5 s")
            return None
        return float(base(text) or 0)

    def recorded(self, kind: str) -> Iterator[tuple[Job, str]]:
        """A workload from files."""
        for key in self.values:
            if key not in _OWN:
                self.fault((str(key),), "goes with a model", ", ".join(_OWN))
        file = Path(self.source.folder, str(self.values[kind]))
        made = self.from_libra(file) if kind == "libra" else self.from_path(file)
        if made is None:
            return
        if made.ranks != self.npus:
            self.fault(
                (), f"{file} has {counted(made.ranks, 'rank')}", f"{self.npus}, as there are NPUs"
            )
            return
        yield self.job(str(self.values.get("name", file.stem)), made), ""

    def from_libra(self, file: Path) -> Workload | None:
        communicator = self.values.get("communicator")
        if not isinstance(communicator, str):
            self.fault(("communicator",), "is missing", "a communicator file of LIBRA")
            return None
        if not libra.is_workload(file):
            self.fault(
                ("libra",),
                f"{file} is not a workload of LIBRA",
                "a text with one layer in each line and no header",
            )
            return None
        return libra.workload(file, Path(self.source.folder, communicator), self.topology)

    def from_path(self, file: Path) -> Workload:
        groups = self.values.get("groups")
        relative = Path(self.source.folder, str(groups)) if groups else None
        if is_text(file):
            platform = Platform(str(self.topology), bandwidth="1 GB/s", latency="0 ns", per="npu")
            return load(file, platform, passes=int(self.number("passes", 1)))
        return load(file, groups=relative)

    def modelled(self) -> Iterator[tuple[Job, str]]:
        """A model under every combination of its options."""
        name = self.values["model"]
        relative = Path(self.source.folder, str(name))
        model = load_model(relative if documents.is_file(relative) else name)
        known = tuple(settable(model.family))
        given = {
            key: value
            for key, value in self.values.items()
            if key not in _OWN and value is not None
        }
        for key in given:
            if key not in known:
                near = difflib.get_close_matches(str(key), known, n=3)
                self.fault(
                    (str(key),), f"is not an option of a {model.family}", ", ".join(near or known)
                )
        varied = [key for key in given if isinstance(given[key], list) and key in known]
        for key in varied:
            if not given[key]:
                self.fault((str(key),), "is an empty list", "one value or several")
        if any(key not in known for key in given) or not all(given[key] for key in varied):
            return
        found, close, why = list[tuple[Job, str]](), list[tuple[Job, str]](), list[Problem]()
        count = math.prod(len(given[key]) for key in varied)
        for index, values in enumerate(itertools.product(*(given[key] for key in varied))):
            chosen = self.filled({**given, **dict(zip(varied, values, strict=True))}, known)
            try:
                made = build(model, **chosen)
                answer = self.fits(made)
            except InputError as error:
                why += error.problems
                continue
            several = [key for key in varied if len(given[key]) > 1]
            text = ", ".join(
                f"{key} {chosen[key]}" for key in dict.fromkeys((*several, "dp")) if key in chosen
            )
            job = self.job(str(self.values.get("name", model.name)), made, (index, count))
            (close if answer == "near" else found).append((job, text if several else ""))
        taken = self.taken(model.name, found, close)
        self.left_out(model.name, len(found) + len(close), why, count)
        yield from taken

    def taken(
        self, name: str, found: list[tuple[Job, str]], close: list[tuple[Job, str]]
    ) -> list[tuple[Job, str]]:
        """Parallelisations that fit, and those that may not where that is asked for or there are no
        others."""
        if not close:
            return found
        many = f"{counted(len(close), 'parallelisation')} of {name} may not fit in memory"
        if found and not self.asks_for_near():
            self.notes.append(
                f"{many} and were not tried, such as: {close[0][1]}; near: true tries them"
            )
            return found
        self.notes.append(f"{many}: they need about as much as there is")
        return [*found, *close]

    def asks_for_near(self) -> bool:
        """Whether the entry takes parallelisations that may not fit."""
        asked = self.values.get("near", False)
        if not isinstance(asked, bool):
            self.fault(("near",), f"{asked!r} is not a flag", "true or false")
        return asked is True

    def left_out(self, name: str, found: int, why: Sequence[Problem], count: int) -> None:
        if not found:
            self.source.problems.extend(list(why)[:10])
        elif why:
            self.notes.append(
                f"{count - found} of {count} parallelisations of {name} do not fit, such as: "
                f"{why[0]}"
            )

    def filled(self, chosen: dict[str, Any], known: Sequence[str]) -> dict[str, Any]:
        """The options with `dp` as what is left of the NPUs."""
        inner = [chosen.get(key, 1) for key in ("tp", "cp", "pp") if key in known]
        if (
            "dp" not in known
            or "dp" in chosen
            or not all(type(each) is int and each > 0 for each in inner)
        ):
            return chosen
        return (
            chosen
            if self.npus % math.prod(inner)
            else {**chosen, "dp": self.npus // math.prod(inner)}
        )

    def fits(self, made: Workload) -> str:
        """Whether it fits in memory as far as is known, `yes` or `near`. Refuses another number of
        ranks than there are NPUs, and what does not fit."""
        place = self.source.place(self.path)
        if made.ranks != self.npus:
            said = f"{made.name} has {counted(made.ranks, 'rank')}"
            raise InputError(
                [Problem(self.source.file, place, said, f"{self.npus}, as there are NPUs")]
            )
        capacity, most = self.capacity(), made.summary.memory if made.summary else 0
        answer = "yes" if capacity is None else _core.fits(most, capacity)
        if capacity is not None and answer == "no":
            said = f"{made.name} needs {most / GB:,.1f} GB on an NPU of {capacity / GB:,.1f} GB"
            raise InputError(
                [Problem(self.source.file, place, said, "more parallelism, ZeRO, recomputation")]
            )
        return answer

    def capacity(self) -> int | None:
        """Bytes of an NPU's memory, where the specification has them."""
        npu = self.settings.get("npu")
        memory = npu.get("memory") if isinstance(npu, dict) else None
        found = base(str(memory.get("capacity", ""))) if isinstance(memory, dict) else None
        return None if found is None else int(found)

    def job(self, name: str, made: Workload, at: tuple[int, int] = (0, 1)) -> Job:
        """The workload, with what it hides unless `overlap` is none; `at`: its place among how many
        choices."""
        raw = self.values.get("overlap", "measured")
        if raw not in ("measured", "none"):
            self.fault(("overlap",), f"invalid overlap: {raw!r}", "measured, none")
        measured = raw == "measured" and not self.paper
        index, count = at
        report = (
            None
            if self.progress is None
            else _within(self.progress, index / count, (index + 1) / count)
        )
        return overlap.job(
            name,
            made,
            self.settings,
            weight=self.weight,
            limit=self.limit,
            measured=measured,
            progress=report,
        )
