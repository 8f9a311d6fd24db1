"""Answers that live peers gave, for tests of all houses. `make peers` asks the peers again
(`lab/peers/run_peers.py`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parents[1] / "golden/peers"
"""A file for each peer: its name, version, the date and the answers."""


def answers(peer: str) -> Any:  # noqa: ANN401 - what JSON has
    """The recorded answers of a peer."""
    return json.loads((RECORDS / f"{peer}.json").read_text(encoding="utf-8"))["answers"]
