"""Workloads from execution traces."""

from __future__ import annotations

import os

from .. import _core
from ..platform import Platform


class Workload:
    """What the ranks do: a program for each, and the groups they communicate in. Equal ranks share a program."""

    def __init__(self, core: _core.Workload, name: str) -> None:
        self._core = core
        self.name = name

    @property
    def ranks(self) -> int:
        """Number of ranks."""
        return self._core.ranks

    @property
    def operations(self) -> int:
        """Operations over all ranks."""
        return self._core.operations

    def __repr__(self) -> str:
        return f"<Workload {self.name}: {self.ranks} ranks, {self.operations} operations>"


def load(
    path: str | os.PathLike[str], platform: Platform | None = None, groups: str | os.PathLike[str] | None = None
) -> Workload:
    """Reads Chakra execution traces, one a rank.

    `path` is `traces/gpt.%d.et` with `%d` standing for the rank, the prefix `traces/gpt` alone, the directory when it
    holds one such set, or an archive of it. Protobuf and JSON, plain and gzip are told apart by their content. With
    `platform` the number of ranks must be that of its NPUs; without, it is checked when the workload is simulated.
    `groups` is a JSON file of communicator groups, `{"1": [0, 1], "2": [2, 3]}`, for traces that only name them.
    Raises `InputError` listing every problem.
    """
    name = os.fspath(path)
    core = _core.Workload.load(name, platform._core if platform else None, os.fspath(groups) if groups else None)
    return Workload(core, name)
