"""Parts of a row that note which of their fields are read.

Every field of a row is read by the rules that predict it, or it is known to change no prediction
(`IRRELEVANT`, with the reason), or it is the reason why the row is left out. Here: that bookkeeping
for rows of all kinds. Not here: fields of training steps that agree with the run (`stated.py`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .run import Missing

_ABSENT = ("", "n/a", "na", "none", "null", "-")
"""Words for a value that is not stated."""

_ANY: Mapping[str, str] = {
    "source": "provenance",
    "notes": "remarks; rules look for the few words that count",
    "group": "the source, whose rule this is",
    "grade": "how sure the source is; figures are left out before",
}
IRRELEVANT: Mapping[str, Mapping[str, str]] = {
    "collectives": {
        **_ANY,
        "consistency": "a check by those who collected",
        "n_points": "counts the points",
        "dtype": "sizes are bytes",
        "software.cuda": "releases that presets do not distinguish",
        "software.driver": "releases that presets do not distinguish",
        "software.container": "releases that presets do not distinguish",
        "hardware.nics_per_node": "counts between several nodes, where it is read",
        "hardware.nic_Gbps": "counts between several nodes, where it is read",
        "points[].label": "the size in words",
        "points[].ip_us": "of two times, one is compared",
        "points[].oop_us": "of two times, one is compared",
        "points[].ip_algbw": "follows from size and time",
        "points[].oop_algbw": "follows from size and time",
        "points[].ip_busbw": "follows from size and time",
        "points[].oop_busbw": "follows from size and time",
        "points[].ip_us_derived": "says that a time follows from a bandwidth",
        "points[].oop_us_derived": "says that a time follows from a bandwidth",
    },
    "training": {
        **_ANY,
        "metric": "results: they set nothing up",
        "software": "releases; rules of sources read those that count",
        "model.task": "training, in words",
    },
    "mlperf": {
        **_ANY,
        "minutes_to_train": "a result",
        "minutes_to_train_runs": "results",
        "tracked_stats_median": "results",
        "tracked_stats_keys": "names of results",
        "step_ms_derived": "a result",
        "train_samples_per_s_derived": "a result",
        "n_runs": "counts the runs",
        "train_samples": "length of the training, not of a step",
        "also_in": "other rounds with the same submission",
        "round": "part of the name",
        "submitter": "provenance",
        "system": "name of the machine",
        "config_file": "provenance",
        "framework": "releases of one framework",
        "software": "releases of libraries",
        "host_cpu": "steps of these benchmarks don't wait for the host's arithmetic",
        "host_networking": "cards of the host in words; presets have one for each GPU",
        "accelerator_interconnect": "links of the accelerator in words; presets have them",
    },
    "compute": {
        **_ANY,
        "us": "a result",
        "ms": "a result",
        "us_derived": "a result",
        "GBps": "a result",
        "TBps": "a result",
        "tflops": "a result",
        "op": "the kernel in words",
        "peak": "the rate of a data sheet, which presets have",
        "software": "releases of libraries",
    },
}
"""Fields of rows of a kind that change no prediction, and why; with a part, all of its fields."""


Field = Any
"""A field's value, which may be a part."""


class Part(Mapping[str, Any]):
    """Fields of a part of a row, without those that state nothing; knows which were read."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.stated = {key: _wrapped(value) for key, value in values.items() if stated(value)}
        self.read: set[object] = set()

    def __getitem__(self, key: str) -> Field:
        self.read.add(key)
        return self.stated[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.stated)

    def __len__(self) -> int:
        return len(self.stated)

    def unread(self, place: str = "") -> Iterator[str]:
        """Places of the fields that no reader used."""
        for key, value in self.stated.items():
            if key not in self.read:
                yield place + key
                continue
            if isinstance(value, Part):
                yield from value.unread(f"{place}{key}.")
            elif isinstance(value, tuple):
                for each in value:
                    if isinstance(each, Part):
                        yield from each.unread(f"{place}{key}[].")


def stated(value: object) -> bool:
    """Whether a field states something."""
    return value is not None and not (isinstance(value, str) and value.strip().lower() in _ABSENT)


def check(row: Part, kind: str) -> None:
    """Raises `Missing` naming the first field of a row that no reader used and that may count."""
    known = IRRELEVANT[kind]
    for place in row.unread():
        if not _above(place) & known.keys():
            raise Missing(f"{place} is not read")


def _above(place: str) -> set[str]:
    """A place, and the parts that it lies in."""
    steps = place.split(".")
    return {".".join(steps[: end + 1]) for end in range(len(steps))}


def _wrapped(value: object) -> object:
    if isinstance(value, Mapping):
        return Part(value)
    if isinstance(value, list | tuple):
        return tuple(map(_wrapped, value))
    return value
