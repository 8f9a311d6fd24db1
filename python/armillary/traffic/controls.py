"""Congestion controls of the packet backend by name, and the settings that choose each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .. import _core
from ..errors import InputError, Problem
from ..platform import Platform

_KEY = re.compile(r"network\.packet\.(\w+)\.congestion_control")
_MARKED = ("dctcp", "dcqcn")
"""Controls that hear of congestion by marks alone."""


def known() -> dict[str, str]:
    """The transport of each congestion control, by name: `new_reno`, `dcqcn` and others. `none` is
    RDMA at the rate of its link."""
    found = {}
    for path, kinds, *_ in _core.platform_keys():
        match = _KEY.fullmatch(path)
        for name in re.findall(r"`(\w+)`", kinds) if match else ():
            found[name] = match[1] if match else ""
    return found


def with_control(platform: Platform, name: str) -> Platform:
    """A platform whose packets have a congestion control. Raises `InputError` for a name that is
    unknown, and for a control without the marks that it needs."""
    transports = known()
    if name not in transports:
        said = f'unknown congestion control "{name}"'
        raise InputError([Problem("", "--congestion-control", said, ", ".join(transports))])
    packet = (platform.describe().get("network") or {}).get("packet") or {}
    if name in _MARKED and packet.get("marking") is None:
        said = f"{name} needs switches that mark packets, and network.packet.marking is not set"
        way = "such as --set network.packet.marking=100kB"
        raise InputError([Problem(platform.name, "--congestion-control", said, way)])
    transport = transports[name]
    return platform.changed(
        {
            "network.packet.transport": transport,
            f"network.packet.{transport}.congestion_control": name,
        }
    )


def parse(text: str | None) -> Sequence[str]:
    """Names of a list that commas separate."""
    return tuple(dict.fromkeys(part.strip() for part in text.split(","))) if text else ()
