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
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

from .. import _core, documents
from ..declared import (
    Allowed,
    Note,
    Others,
    Seconds,
    Short,
    Source,
    Within,
    Wrong,
    read_value,
)
from ..documents import Path_
from ..errors import ArmillaryError, InputError, Problem
from ..estimate.terms import Job
from ..estimate.topology import Topology
from ..platform import Platform
from ..units import GB, base, counted
from ..workload import Workload, build, load, load_model
from ..workload.families import settable
from ..workload.workload import is_text
from . import libra, overlap
from .task import ParallelismChoice


@dataclass(frozen=True, slots=True)
class _Entry:
    """A workload as the specification has it; other keys are options of its model."""

    name: Note = ""
    model: str | None = None
    path: str | None = None
    groups: str | None = None
    passes: Annotated[int, Within(1, 10_000)] = 1
    libra: str | None = None
    communicator: str | None = None
    weight: Annotated[
        float, Within(math.ulp(0.0), 1e12), Allowed("a number above 0, such as 1 or 0.5")
    ] = 1.0
    time_bound: Seconds | None = None
    overlap: Literal["measured", "none"] = "measured"
    near: bool = False

    def __post_init__(self) -> None:
        kinds = [key for key in ("model", "path", "libra") if getattr(self, key) is not None]
        if len(kinds) != 1:
            said = f"names {' and '.join(kinds) or 'no workload'}"
            raise Wrong(said, "one of model, path, libra")
        if self.libra is not None and self.communicator is None:
            raise Wrong("is missing", "a communicator file of LIBRA", "communicator")


_OWN = tuple(each.name for each in fields(_Entry))
_DECLARED = Annotated[_Entry, Short("model"), Others()]
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
        path: Path_ = ("workloads", index)
        said: _Entry | None = read_value(_DECLARED, source, path, each, None)
        if said is None:
            continue
        rest = {} if isinstance(each, str) else {k: v for k, v in each.items() if k not in _OWN}
        reader = _Reader(source, path, said, rest, npus, settings, limit, topology, paper, report)
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


class _Reader:
    """Makes the jobs of one workload."""

    def __init__(
        self,
        source: Source,
        path: Path_,
        said: _Entry,
        rest: Mapping[str, Any],
        npus: int,
        settings: Mapping[str, object],
        limit: float | None,
        topology: Topology,
        paper: bool,
        progress: Callable[[float], None] | None,
    ) -> None:
        self.source, self.path, self.said, self.rest = source, path, said, rest
        self.npus, self.settings = npus, settings
        self.limit = limit if said.time_bound is None else said.time_bound
        self.topology, self.paper, self.progress = topology, paper, progress
        self.notes: list[str] = []

    def jobs(self) -> Iterator[tuple[Job, str]]:
        """The workload under each parallelisation, with its text."""
        try:
            yield from self.modelled() if self.said.model else self.recorded()
        except ArmillaryError as error:
            self.source.problems.extend(error.problems)

    def fault(self, path: Path_, message: str, allowed: str = "") -> None:
        self.source.fault((*self.path, *path), message, allowed)

    def recorded(self) -> Iterator[tuple[Job, str]]:
        """A workload from files."""
        for key in self.rest:
            self.fault((str(key),), "goes with a model", ", ".join(_OWN))
        file = Path(self.source.folder, str(self.said.path or self.said.libra))
        made = self.from_path(file) if self.said.path else self.from_libra(file)
        if made is None:
            return
        if made.ranks != self.npus:
            self.fault(
                (), f"{file} has {counted(made.ranks, 'rank')}", f"{self.npus}, as there are NPUs"
            )
            return
        yield self.job(self.said.name or file.stem, made), ""

    def from_libra(self, file: Path) -> Workload | None:
        if not libra.is_workload(file):
            self.fault(
                ("libra",),
                f"{file} is not a workload of LIBRA",
                "a text with one layer in each line and no header",
            )
            return None
        communicator = Path(self.source.folder, str(self.said.communicator))
        return libra.workload(file, communicator, self.topology)

    def from_path(self, file: Path) -> Workload:
        groups = self.said.groups
        if is_text(file):
            platform = Platform(str(self.topology), bandwidth="1 GB/s", latency="0 ns", per="npu")
            return load(file, platform, passes=self.said.passes)
        return load(file, groups=Path(self.source.folder, groups) if groups else None)

    def modelled(self) -> Iterator[tuple[Job, str]]:
        """A model under every combination of its options."""
        name = str(self.said.model)
        relative = Path(self.source.folder, name)
        model = load_model(relative if documents.is_file(relative) else name)
        known = tuple(settable(model.family))
        given = {key: value for key, value in self.rest.items() if value is not None}
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
            job = self.job(self.said.name or model.name, made, (index, count))
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
        if found and not self.said.near:
            self.notes.append(
                f"{many} and were not tried, such as: {close[0][1]}; near: true tries them"
            )
            return found
        self.notes.append(f"{many}: they need about as much as there is")
        return [*found, *close]

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
        measured = self.said.overlap == "measured" and not self.paper
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
            weight=self.said.weight,
            limit=self.limit,
            measured=measured,
            progress=report,
        )
