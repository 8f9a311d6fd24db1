"""Operations of the ranks of a machine: read from files, or built."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from .. import _core, documents, files
from ..errors import InputError, Problem
from ..platform import AnyPlatform, Platform
from ..units import counted
from . import texts
from .program import Program
from .summary import Offloaded, RankClass, Summary

Format = Literal["compact", "chakra", "text"]

_Amounts: TypeAlias = tuple[int, int, int, int]
_Footprint: TypeAlias = tuple[_Amounts, _Amounts, _Amounts]

_MOST_PASSES = 2**32 - 1


@dataclass(frozen=True, slots=True)
class Text:
    """A workload as a text of ASTRA-sim 1.0 (docs/reference/text-workloads.md)."""

    text: str
    """Content of the file: a line for each layer, times in whole ns."""
    passes: int
    """How often the layers run, which the file does not say: `load(path, platform, passes=...)`."""
    warnings: tuple[str, ...]
    """Why a time is to be doubted."""


@dataclass(frozen=True, slots=True)
class OutsideMemory:
    """Fullest memory of one kind outside of the NPUs."""

    name: str
    """`memory pool`, `remote memory`, `CPU memory` or `NVMe`."""
    ranks: int
    """Ranks whose tensors lie in it."""
    bytes: int
    """Bytes of these tensors, at least."""
    capacity_bytes: int | None
    """Bytes that it can hold; `None` where that is unknown."""


_GROUPS = "comm_group.json"
"""Groups of the Chakra traces in a directory, as `Workload.write` and other generators name the
file."""
_COMPACT = "workload.json"
"""File that identifies a directory of `Workload.write`."""


class Workload:
    """Operations of the ranks: a program for each, and the groups they communicate in. Equal ranks
    share a program."""

    def __init__(self, core: _core.Workload, name: str) -> None:
        self._core = core
        self.name = name

    @classmethod
    def mesh(
        cls,
        name: str,
        axes: Sequence[tuple[str, int]],
        groups: Mapping[str, Sequence[str]],
        by: Sequence[str],
        programs: Sequence[Program],
        summary: Summary | None = None,
        warnings: Sequence[str] = (),
        alike: int = 1,
    ) -> Workload:
        """Ranks as the points of a mesh, the first of `axes` (name, size) running fastest.

        `groups["tp"] = ["tp"]` makes a group of each set of ranks that differ only along those
        axes, positions running along the first one fastest. `programs[i]` is that of point `i` of
        the axes `by`; stages that do the same may share one. With a `summary`, its classes are in
        the order of `programs`, each for `alike` of them that follow each other, and give their
        memory. `warnings` stand at the top of every report. Raises `InputError` when this does not
        hold together."""
        footprints, text = _declared(summary, len(programs), alike)
        families = [(family, list(along)) for family, along in groups.items()]
        return cls(
            _core.Workload.mesh(
                name,
                list(axes),
                families,
                list(by),
                list(programs),
                footprints,
                text,
                list(warnings),
            ),
            name,
        )

    @classmethod
    def listed(
        cls,
        name: str,
        programs: Sequence[Program],
        ranks: Sequence[int],
        groups: Mapping[str, Sequence[int]],
        summary: Summary | None = None,
        warnings: Sequence[str] = (),
    ) -> Workload:
        """Ranks one by one: rank `r` runs `programs[ranks[r]]`; `groups` are the members by name,
        in ring order.

        Raises `InputError` when this does not hold together.
        """
        footprints, text = _declared(summary, len(programs))
        members = [(group, list(members)) for group, members in groups.items()]
        return cls(
            _core.Workload.listed(
                name, list(programs), list(ranks), members, footprints, text, list(warnings)
            ),
            name,
        )

    def made_of(self, model: str, options: Mapping[str, object]) -> Workload:
        """The same workload; its reports say that it was made of `model` with `options`, which
        repeats their run."""
        return Workload(
            self._core.made_of(json.dumps({"name": model, "options": options})), self.name
        )

    def amounts(self) -> list[tuple[int, int, str, list[int], int]]:
        """The operations of each program: program, ranks that run it, kind, numbers, how many.

        The numbers are batch, m, n, k and bytes of an element of a product (`gemm`, `grouped`);
        operations and bytes of a kernel; bytes of a `load` or `store`; bytes, then members, of a
        collective; bytes and both ranks of a `send`. Groups are those of a program's first rank."""
        return self._core.amounts()

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self._core.ranks

    @property
    def programs(self) -> int:
        """Number of distinct programs."""
        return self._core.programs

    @property
    def operations(self) -> int:
        """Operations (nodes) over all ranks."""
        return self._core.operations

    @property
    def summary(self) -> Summary | None:
        """Parameters, operations, volumes and memory, if its generator said so."""
        text = self._core.summary
        return None if text is None else _summary(text, self.ranks, self.name)

    def outside(self, platform: AnyPlatform) -> list[OutsideMemory]:
        """The fullest memory of each kind outside of the NPUs of `platform`: that of a host where
        the platform says how many NPUs a host has (docs/models/memory.md#what-lies-outside)."""
        found = _core.outside(self._core, Platform.of(platform)._core)
        return [OutsideMemory(*row) for row in found]

    def as_text(self, platform: AnyPlatform) -> Text:
        """As a text workload of ASTRA-sim 1.0 that takes on `platform` what this one takes there.

        The time of each pass of a layer is rounded up to whole ns. Raises `InputError` with the
        first operation that stands otherwise in every training loop a text can say, and where the
        platform has another number of NPUs."""
        text, passes, warnings = self._core.text(Platform.of(platform)._core)
        return Text(text, passes, tuple(warnings))

    def write(
        self,
        path: str | os.PathLike[str],
        format: Format = "compact",
        platform: AnyPlatform | None = None,
    ) -> None:
        """Writes into the directory `path`: `workload.json` and one Chakra file a program, or
        (`chakra`) one a rank.

        One trace a rank, `trace.<rank>.et` with `comm_group.json`, is what ASTRA-sim reads. `text`
        writes the file `path` as ASTRA-sim 1.0 reads it, with the times on `platform`, which the
        other formats have no use for; see `as_text`, which also says how often it runs. Raises
        `InputError`."""
        if (format == "text") != (platform is not None):
            have = (
                "no platform, whose times it would hold"
                if platform is None
                else "a platform, which it does not need"
            )
            raise InputError(
                [
                    Problem(
                        "", "platform", f"the format {format} is given {have}", "one for text only"
                    )
                ]
            )
        if platform is not None:
            files.write_text(path, self.as_text(platform).text)
        else:
            with files.directory(path) as folder:
                self._core.write(str(folder), format == "chakra")

    def __repr__(self) -> str:
        size = f"{counted(self.ranks, 'rank')}, {counted(self.operations, 'operation')}"
        return f"<Workload {self.name}: {size}>"


def load(
    path: str | os.PathLike[str],
    platform: AnyPlatform | None = None,
    groups: str | os.PathLike[str] | None = None,
    passes: int = 1,
    course: texts.Options = texts.Options(),  # noqa: B008
) -> Workload:
    """Reads a workload from files; see `armillary.workload.load`, which takes models too."""
    name = os.fspath(path)
    if not 1 <= passes <= _MOST_PASSES:
        raise InputError(
            [Problem(name, "passes", f"invalid number of passes: {passes}", f"1 to {_MOST_PASSES}")]
        )
    target = Platform.of(platform)._core if platform else None
    listed = Path(name, _GROUPS)
    found = listed if groups is None and documents.is_file(listed) else groups
    groups_file = os.fspath(found) if found else None
    core = _core.Workload.load(
        name, target, groups_file, passes, course.overlap, course.bucket_bytes
    )
    workload = Workload(core, name)
    text = workload._core.summary
    if text is not None:
        _summary(
            text,
            workload.ranks,
            os.fspath(Path(name, _COMPACT)) if documents.is_folder(name) else name,
        )
    return workload


def is_text(path: str | os.PathLike[str]) -> bool:
    """Whether `path` is a text workload of ASTRA-sim 1.0, by its content."""
    return _core.Workload.is_text(os.fspath(path))


def _summary(text: str, ranks: int, file: str) -> Summary:
    """The summary that came with a workload of `ranks` ranks. Raises `InputError` where it is none
    of such a one."""
    summary = Summary.from_dict(documents.parse_json(text, file, "a summary"), file)
    if summary.ranks != ranks:
        message = f"is {summary.ranks}, but the workload has {counted(ranks, 'rank')}"
        raise InputError([Problem(file, "summary.ranks", message, str(ranks))])
    return summary


def _declared(
    summary: Summary | None, programs: int, alike: int = 1
) -> tuple[list[_Footprint], str | None]:
    """Memory by program, and the summary as text."""
    if summary is None:
        return [], None
    footprints = [_footprint(entry) for entry in summary.classes]
    known = [footprint for footprint in footprints for _ in range(alike)]
    return known if len(known) == programs else [], json.dumps(summary.as_dict(), indent=2)


def _footprint(entry: RankClass) -> _Footprint:
    """Memory of a rank for the core, which has no word for temporary buffers."""
    held = entry.memory
    inside = held.weights, held.gradients + held.temporary, held.optimizer, held.activations
    return inside, _amounts(entry.host), _amounts(entry.disk)


def _amounts(part: Offloaded) -> _Amounts:
    return part.weights, part.gradients, part.optimizer, part.tables
