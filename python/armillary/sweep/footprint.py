"""How much of an NPU's memory a point's workload needs, before anything is simulated; kept by what
the workload is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..workload import load, needed_memory
from .source import located


class Footprints:
    """Memory that the workloads of one study need; `folder` is where its relative paths start."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.known: dict[str, int | None] = {}

    def of(self, wanted: Mapping[str, Any]) -> int | None:
        """Bytes of the fullest NPU at its peak, of the point that sets `wanted`; nothing where that
        is unknown.

        Raises `InputError` for a workload that can't be made.
        """
        chosen = {
            key.partition(".")[2]: each
            for key, each in wanted.items()
            if key.startswith("workload.")
        }
        key = json.dumps(chosen, sort_keys=True)
        if key not in self.known:
            self.known[key] = self._needed(chosen)
        return self.known[key]

    def _needed(self, chosen: dict[str, Any]) -> int | None:
        if "path" not in chosen:
            return needed_memory(located(chosen.pop("model"), self.folder), **chosen)
        groups = chosen.get("groups")
        made = load(
            located(chosen["path"], self.folder), None, groups and located(groups, self.folder)
        )
        return None if made.summary is None else made.summary.memory or None
