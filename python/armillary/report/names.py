"""Names on pages: a workload, a class of ranks.

Here: readable names made of what a report holds. Not here: quantities (`quantity.py`).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from ..schema import Class
from ..workload import Summary
from .reading import Asked, Origin

_CLIP = 28
"""Characters of a list of ranks."""
_ENDINGS = re.compile(
    r"(\.(pt|trace|json|et|pb|gz|bz2|xz|zst|zip|tar|tgz|csv|txt|yml|yaml)|\.\d{9,}"
    r"|\.[A-Z][a-z]{2}(_\d{2}){4}(\.\d+)?)+$",
    re.IGNORECASE,
)
"""Parts that recorders add to the name of a file: its kind, and the time of writing."""
_RECORDED = "recorded"
"""Family of a workload that `armillary import` made."""


def title(config: Asked) -> str:
    """`llama-3-70b on dgx-h100-16n`."""
    return f"{workload(config['workload'])} on {config['platform']['name']}"


def workload(origin: Origin) -> str:
    """The model; of a recording the name of its file without endings and times; else the last part
    of the path."""
    summary = origin.get("summary")
    if summary is None:
        return PurePath(origin.get("traces") or "workload").name or "workload"
    if not is_recorded(summary):
        return summary.model
    return f"{_ENDINGS.sub('', PurePath(summary.model).name) or summary.model} (recorded)"


def is_recorded(summary: Summary) -> bool:
    """Whether a workload is what a profiler recorded, so that its model is the name of a file."""
    return summary.family == _RECORDED


def files(paths: Sequence[str]) -> list[str]:
    """Names of files: each without the folders that are not needed to tell them apart."""
    parts = [PurePath(path).parts for path in paths]
    deepest = max(map(len, parts), default=0)
    for length in range(1, deepest + 1):
        found = ["/".join(each[-length:]) for each in parts]
        if len(set(found)) == len(set(paths)):
            return found
    return list(paths)


def ranks(item: Class) -> str:
    """`ranks 0-127`, clipped where the list is long."""
    text = item["ranks"]
    text = text if len(text) <= _CLIP else f"{text[: _CLIP - 3]}..."
    return f"rank {text}" if item["count"] == 1 else f"ranks {text}"


def classes(items: Sequence[Class]) -> list[str]:
    """A name of each class: its label, such as `stage 3`, with its ranks where others have the
    same; else its ranks."""
    often = Counter(item["label"] for item in items)
    return [
        ranks(item)
        if not item["label"]
        else item["label"]
        if often[item["label"]] == 1
        else _both(item)
        for item in items
    ]


def _both(item: Class) -> str:
    return f"{item['label']}, {ranks(item)}"
