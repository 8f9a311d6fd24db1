"""The platform as Python sees it. What the keys of a platform file mean is in
`crates/platform/src/config/native`."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from .. import _core
from ..errors import InputError, Problem
from ..units import counted
from .presets import SYSTEMS

_PRESETS = [str(SYSTEMS)]
_MOST_LINKS = 2**18
"""One-way links of a network that is written node by node."""

Fits = Literal["yes", "near", "no"]
"""Whether a workload fits the memory of its NPUs; `near` where the error of memory decides."""


def fit_limits(capacity: int) -> tuple[int, int]:
    """The most bytes that fit a memory of `capacity` bytes, and the most that may
    (docs/models/memory.md)."""
    return _core.fit_limits(capacity)


AnyPlatform: TypeAlias = "Platform | str | os.PathLike[str]"
"""A platform, the name of a preset, or the path of a platform file."""


class Platform:
    """NPUs, their memories, the network between them, and how collectives run on it.

    `Platform("R(4)_SW(16)", bandwidth=["300 GB/s", "50 GB/s"], latency=["500 ns", "1 us"])` stacks
    blocks, dimension 1 first; one value stands for all dimensions. `per` says what a bandwidth is
    of, `link` or `npu` (all links of an NPU in that dimension); FullyConnected needs it. `settings`
    are further keys of a platform file, `{"scheduler.chunks": 8}`. `Platform.load` reads a file or
    a preset. Raises `InputError` listing every problem."""

    def __init__(
        self,
        topology: str,
        *,
        bandwidth: str | Sequence[str],
        latency: str | Sequence[str],
        per: str | Sequence[str] = (),
        settings: Mapping[str, object] | None = None,
    ) -> None:
        bandwidths, latencies = _texts("bandwidth", bandwidth), _texts("latency", latency)
        self._core = _core.Platform.inline(
            topology, bandwidths, latencies, _texts("per", per), _PRESETS, _pairs(settings)
        )

    @classmethod
    def load(
        cls,
        name: str | os.PathLike[str],
        settings: Mapping[str, object] | None = None,
        *,
        npus: int | None = None,
    ) -> Platform:
        """Reads the preset or the file `name`; `settings` overrides values, `{"scheduler.chunks":
        8}`.

        `npus` resizes the outermost dimension to this total number of NPUs. Raises
        `InputError`."""
        platform = cls.__new__(cls)
        wanted = dict(settings or {}) if npus is None else {**(settings or {}), "npus": npus}
        platform._core = _core.Platform.load(os.fspath(name), _PRESETS, _pairs(wanted))
        return platform

    @classmethod
    def of(
        cls,
        platform: AnyPlatform,
        settings: Mapping[str, object] | None = None,
        *,
        npus: int | None = None,
    ) -> Platform:
        """`platform` itself, or the preset or file that it names, read as `load` does. `npus`
        resizes the outermost dimension of either to this total number of NPUs; `settings` are for
        names only.

        Raises:
            InputError: an unknown name, a wrong file, a number of NPUs that no size gives.
        """
        if not isinstance(platform, Platform):
            return cls.load(platform, settings, npus=npus)
        return platform if npus in (None, platform.npus) else platform.changed({"npus": npus})

    @classmethod
    def explain(
        cls,
        name: str | os.PathLike[str],
        settings: Mapping[str, object] | None = None,
    ) -> tuple[Platform, str]:
        """`load`, and a platform file that reads back to the platform. In it a comment after each
        value says where the value comes from: file and line, `--set` (for `settings`), or a
        default. Raises `InputError`."""
        platform = cls.__new__(cls)
        platform._core, text = _core.Platform.explain(os.fspath(name), _PRESETS, _pairs(settings))
        return platform, text

    @classmethod
    def parse(
        cls, text: str, name: str = "platform.yml", settings: Mapping[str, object] | None = None
    ) -> Platform:
        """Reads the text of a platform file, as `to_yaml` writes it; `name` is its name in
        problems."""
        platform = cls.__new__(cls)
        platform._core = _core.Platform.parse(text, name, _PRESETS, _pairs(settings))
        return platform

    @property
    def name(self) -> str:
        """Name for people."""
        return self._core.name

    @property
    def source(self) -> str:
        """Where the numbers are from."""
        return self._core.source

    @property
    def npus(self) -> int:
        """Number of NPUs."""
        return self._core.npus

    def changed(self, settings: Mapping[str, object]) -> Platform:
        """The same platform with some values set: `{"links[0].bandwidth": "100 GB/s"}`. Raises
        `InputError`."""
        return Platform.parse(self.to_yaml(), self.name, settings) if settings else self

    @property
    def backend(self) -> str:
        """The network backend of a run that names none: `network.model`, or the default."""
        return self._core.backend

    @property
    def has_library(self) -> bool:
        """Whether a communication library (NCCL, RCCL) does its collectives."""
        return self._core.has_library

    @property
    def warnings(self) -> list[str]:
        """Oddities of the platform: settings without effect, a node larger than it is. Every report
        has them too."""
        return self._core.warnings

    def findings(self) -> tuple[list[Problem], list[str]]:
        """Faults of the files that it names (algorithms, a table of routes), which runs read when
        they need them; and warnings of unknown properties of them."""
        problems, warnings = self._core.findings()
        return [Problem(*parts) for parts in problems], warnings

    def fits(self, needed: int) -> Fits | None:
        """Whether a workload fits that needs `needed` bytes of an NPU: `yes`, `no`, or `near` where
        that is closer to the capacity than predictions are exact; `None` for an unknown capacity
        (docs/models/memory.md)."""
        return self._core.fits(needed)

    def times(self, program: _core.Program) -> list[tuple[str, int]]:
        """Name and picoseconds of every computation and access to memory of `program`, each by
        itself, as a run gives them. Nothing can be added to `program` afterwards.

        Raises `InputError` for an operation whose time the platform does not say, such as a kernel
        without a recorded duration on `npu.compute: recorded`."""
        return self._core.times(program)

    def describe(self) -> dict[str, Any]:
        """Everything the simulator will use, defaults filled in; integers with their unit in the
        key."""
        described: dict[str, Any] = json.loads(self._core.to_json())
        return described

    def network_facts(self) -> dict[str, Any]:
        """Parts and capacity of the network.

        `npus`; `switches` by tier (of a stack by dimension); `links` (one-way); `diameter` (links
        between the NPUs that are farthest apart, or `None` for large explicit graphs); `bisection`
        (bytes per second from the lower to the upper half of the ranks over any routes, a maximum
        flow, or `None` for more than 2^20 links). Empty where the network has more than 2^32 links.
        """
        facts: dict[str, Any] = json.loads(self._core.network_facts() or "{}")
        return facts

    def picture(self) -> dict[str, Any] | None:
        """The network small enough to draw, as `picture` of a report has it: `layout`, `cells`,
        `cables`. `None` for stacks that have blocks other than rings and meshes."""
        drawn: dict[str, Any] | None = json.loads(self._core.picture() or "null")
        return drawn

    def wiring(self) -> dict[str, Any]:
        """Every node and cable of the network: `nodes`, each a name and a tier (0 for NPUs), and
        `cables`, each with its `ends` (indices of nodes), the links `forth` from the first end and
        `back`, the `bandwidth` of a link (bytes per second), `latency_ps` and `kind`.

        Raises `InputError` for more than 262,144 one-way links."""
        text = self._core.wiring(_MOST_LINKS)
        if text is None:
            raise InputError(
                [
                    Problem(
                        self.name,
                        "",
                        "the network is too large to be written node by node",
                        f"at most {_MOST_LINKS:,} one-way links, as with a smaller --npus",
                    )
                ]
            )
        wiring: dict[str, Any] = json.loads(text)
        return wiring

    def to_yaml(self) -> str:
        """A platform file that reads back to this platform."""
        return self._core.to_yaml()

    def __repr__(self) -> str:
        return f"<Platform {self.name}: {counted(self.npus, 'NPU')}>"


def _pairs(settings: Mapping[str, object] | None) -> list[tuple[str, str]]:
    return [
        (key, value if isinstance(value, str) else json.dumps(value))
        for key, value in (settings or {}).items()
    ]


def _texts(key: str, value: str | Sequence[str]) -> list[str]:
    """One or several texts as a list; a bare number has no unit and is refused."""
    values = [value] if isinstance(value, str) or not isinstance(value, Sequence) else list(value)
    bare = [item for item in values if not isinstance(item, str)]
    if bare:
        help_ = (
            'text with a unit, such as "50 GB/s" or "500 ns", one for all dimensions or one a '
            "dimension"
        )
        raise InputError(
            [Problem("Platform(...)", key, f"{bare[0]!r} is not text with a unit", help_)]
        )
    return values
