"""The platforms that come with Armillary: `systems/*.yml`, one platform a file."""

from __future__ import annotations

from pathlib import Path

SYSTEMS = Path(__file__).resolve().parent.parent / "systems"
"""Folder of the presets."""


def presets() -> list[str]:
    """Names of the platforms that come with Armillary, in order."""
    return sorted(path.stem for path in SYSTEMS.glob("*.yml"))
