"""Names that a shell completes for an argument. The shell itself completes files."""

from __future__ import annotations

import re

from .. import _core, nccl
from .. import backends as network


def platforms(incomplete: str) -> list[str]:
    """Presets of platforms with this beginning."""
    from ..platform import presets

    return _beginning(incomplete, presets())


def workloads(incomplete: str) -> list[str]:
    """Presets of models with this beginning."""
    from ..workload import models

    return _beginning(incomplete, models())


def backends(incomplete: str) -> list[str]:
    """Network backends with this beginning."""
    return _beginning(incomplete, list(network.NAMES))


def patterns(incomplete: str) -> list[str]:
    """Patterns of synthetic traffic with this beginning."""
    return _beginning(incomplete, [name for name, _ in _core.Traffic.patterns()])


def collectives(incomplete: str) -> list[str]:
    """Kinds of collectives with this beginning."""
    return _beginning(incomplete, list(nccl.OPERATIONS))


def settings(incomplete: str) -> list[tuple[str, str]]:
    """Keys of platform files that begin so, for `--set`, with their meaning. After `=` the words
    that the key allows."""
    key, equals, _ = incomplete.partition("=")
    if not equals:
        keys = [row for row in _core.platform_keys() if not row[4] or ", or mapping" in row[1]]
        return [(f"{path}=", doc) for path, _, _, doc, _ in keys if path.startswith(incomplete)]
    kinds = [kind for path, kind, *_ in _core.platform_keys() if path == key]
    words = [word for kind in kinds for word in re.findall(r"`([^`(]+)`", kind)]
    return [(value, "") for value in _beginning(incomplete, [f"{key}={word}" for word in words])]


def _beginning(incomplete: str, names: list[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
