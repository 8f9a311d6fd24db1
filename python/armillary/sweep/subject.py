"""Subject of a sweep, in words for its title: `llama-3-70b on dgx-h100-16n`.

Here: names from the study. Not here: the title itself (`page.py`)."""

from __future__ import annotations

from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .study import SweepStudy


def subject(study: SweepStudy) -> str:
    """The model and the platform of a study; where one of them varies, their number."""
    models = _names(study, "workload.model", "workload.path")
    platforms = _names(study, "platform.file")
    npus = _given(study, "platform.npus")
    what = _one(models, "models") or "workloads"
    where = _one(platforms, "platforms")
    size = f"{npus[0]:,} NPUs of " if len(npus) == 1 and isinstance(npus[0], int) else ""
    return f"{what} on {size}{where}" if where else what


def _one(names: list[str], several: str) -> str:
    return names[0] if len(names) == 1 else f"{len(names)} {several}" if names else ""


def _names(study: SweepStudy, *targets: str) -> list[str]:
    """Names of files without their folders and endings."""
    found = [str(each) for target in targets for each in _given(study, target) if each]
    return list(dict.fromkeys(_name(each) for each in found))


def _name(text: str) -> str:
    path = PurePath(text)
    return path.stem if path.suffix in {".yml", ".yaml", ".json", ".et"} else path.name or text


def _given(study: SweepStudy, target: str) -> list[object]:
    """The values that a target has in any point, in the study's order."""
    fixed = study.base.get(target)
    found = [] if fixed is None else [fixed]
    rows = len(study.columns) - len(study.parameters)
    for place, targets in enumerate(study.targets):
        if target in targets and place < rows:
            found = list(dict.fromkeys(row[place] for row in study.rows))
        elif target in targets:
            found = list(getattr(study.parameters[place - rows].domain, "values", ()))
    return found
