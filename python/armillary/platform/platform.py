"""The platform as Python sees it. What the keys of a platform file mean is in the reader (`crates/sim/src/config`)."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

from .. import _core
from ..errors import InputError, Problem
from . import presets


class Platform:
    """NPUs, their memories, the network between them, and how collectives run on it.

    `Platform("R(4)_SW(16)", bandwidth=["300 GB/s", "50 GB/s"], latency=["500 ns", "1 us"])` stacks blocks, dimension 1
    first; `Platform.load` reads a file or a preset. Other keys of a platform file go in `**keys`.
    """

    def __init__(
        self,
        topology: str,
        *,
        bandwidth: str | Sequence[str],
        latency: str | Sequence[str],
        name: str = "",
        settings: Mapping[str, object] | None = None,
        **keys: object,
    ) -> None:
        for key, value in (("bandwidth", bandwidth), ("latency", latency)):
            _require_units(key, value)
        text = json.dumps(
            {
                "name": name or topology,
                "network": {"topology": topology, "bandwidth": bandwidth, "latency": latency},
                **keys,
            }
        )
        self._core = _core.Platform.parse(text, "Platform(...)", _pairs(settings))

    @classmethod
    def load(cls, name: str | os.PathLike[str], settings: Mapping[str, object] | None = None) -> Platform:
        """Reads the preset or the file `name`; `settings` overrides values, `{"scheduler.chunks": 8}`.

        Raises `InputError` listing every problem.
        """
        platform = cls.__new__(cls)
        platform._core = _core.Platform.load(str(presets.find(os.fspath(name))), _pairs(settings))
        return platform

    @property
    def name(self) -> str:
        """Name for people."""
        return self._core.name

    @property
    def npus(self) -> int:
        """Number of NPUs."""
        return self._core.npus

    def describe(self) -> dict[str, Any]:
        """Everything the simulator will use, defaults filled in."""
        described: dict[str, Any] = json.loads(self._core.describe())
        return described

    def __repr__(self) -> str:
        return f"<Platform {self.name}: {self.npus} NPUs>"


def _pairs(settings: Mapping[str, object] | None) -> list[tuple[str, str]]:
    return [(key, value if isinstance(value, str) else json.dumps(value)) for key, value in (settings or {}).items()]


def _require_units(key: str, value: object) -> None:
    values = [value] if isinstance(value, str) or not isinstance(value, Sequence) else list(value)
    example = '"50 GB/s"' if key == "bandwidth" else '"500 ns"'
    bare = [v for v in values if not isinstance(v, str)]
    if bare:
        help_ = f"text with a unit, such as {example}, one a dimension"
        raise InputError([Problem("Platform(...)", key, f"{bare[0]!r} has no unit", help_)])
