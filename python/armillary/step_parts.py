"""The parts of the step.

Generated from `crates/stats/src/part.rs` by `make generate`; do not edit."""

from __future__ import annotations

from typing import NamedTuple


class PartLane(NamedTuple):
    """Bars of a lane."""

    kind: str
    """Their kind. Parts may share one."""
    colour: str
    """Their colour, which differs from those of passes."""


class PartActivity(NamedTuple):
    """Activity of a rank while a part goes on."""

    field: str
    """Field of the activity over time."""
    label: str
    """Name of the activity."""
    in_flight: str | None
    """Field of a layer that has the time in flight, charged or not."""
    lane: PartLane
    """How lanes over time show it."""
    kinds: tuple[str, ...]
    """Kinds of the segments of the critical path that belong to it alone."""


class PartStyle(NamedTuple):
    """Colours and characters. Shapes distinguish parts where colours are missing."""

    colour: str
    """Colour in charts (Okabe and Ito, 2008)."""
    mark: str
    """Character of a bar in a terminal."""
    ascii: str
    """The same where only ASCII can be shown."""
    terminal: str
    """Colour in a terminal."""


class PartBound(NamedTuple):
    """Possible limit of a step."""

    name: str
    """Name in data."""
    subject: str
    """The subject of the sentence `... bounds the step`."""


class PartSetting(NamedTuple):
    """A setting to try."""

    what: str
    """Meaning, as in `... would help most`."""
    key: str
    """Key of the platform."""
    value: str
    """Value."""


class PartDeclaration(NamedTuple):
    """Everything about one part of the step."""

    field: str
    """Field of a class and of a layer that has its time."""
    label: str
    """Name as a part of the step."""
    heading: str
    """Name where there is little room."""
    meaning: str
    """Meaning of the part, in a sentence or two."""
    always: bool
    """Whether views show it even where a run has none of it."""
    doing: PartActivity | None
    """Activity of a rank meanwhile. Null for idle time."""
    style: PartStyle
    """How it looks."""
    bound: PartBound
    """Limit that the part counts as where a verdict names the limit of the step."""
    removed_by: PartSetting | None
    """The setting of a platform that removes it, if one does."""


PARTS: tuple[PartDeclaration, ...] = (
    PartDeclaration(
        field="compute_ns",
        label="compute",
        heading="Compute",
        meaning="The NPU computes.",
        always=True,
        doing=PartActivity(
            field="compute",
            label="compute",
            in_flight=None,
            lane=PartLane(
                kind="compute",
                colour="#56b4e9",
            ),
            kinds=("compute",),
        ),
        style=PartStyle(
            colour="#0072b2",
            mark="\u2588",
            ascii="#",
            terminal="green",
        ),
        bound=PartBound(
            name="compute",
            subject="computing",
        ),
        removed_by=None,
    ),
    PartDeclaration(
        field="exposed_comm_ns",
        label="exposed communication",
        heading="Exposed comm.",
        meaning=(
            "The rank communicates (a collective, a send, or a message on its way to a posted "
            "receive) and does not compute."
        ),
        always=True,
        doing=PartActivity(
            field="communication",
            label="communication",
            in_flight="comm_ns",
            lane=PartLane(
                kind="communication",
                colour="#d55e00",
            ),
            kinds=(),
        ),
        style=PartStyle(
            colour="#d55e00",
            mark="\u2593",
            ascii="=",
            terminal="red",
        ),
        bound=PartBound(
            name="communication",
            subject="communication",
        ),
        removed_by=None,
    ),
    PartDeclaration(
        field="exposed_remote_ns",
        label="exposed remote memory",
        heading="Remote mem.",
        meaning="The rank accesses memory outside the NPU and neither computes nor communicates.",
        always=False,
        doing=PartActivity(
            field="remote",
            label="remote memory",
            in_flight="remote_ns",
            lane=PartLane(
                kind="memory",
                colour="#f0e442",
            ),
            kinds=("load", "store"),
        ),
        style=PartStyle(
            colour="#e69f00",
            mark="\u2592",
            ascii="~",
            terminal="yellow",
        ),
        bound=PartBound(
            name="memory",
            subject="moving data to and from memory",
        ),
        removed_by=None,
    ),
    PartDeclaration(
        field="exposed_local_ns",
        label="exposed local memory",
        heading="Local mem.",
        meaning=(
            "The rank accesses the NPU's own memory by a load or store node and does nothing else. "
            "What kernels read and write is part of `compute_ns`."
        ),
        always=False,
        doing=PartActivity(
            field="local",
            label="local memory",
            in_flight="local_ns",
            lane=PartLane(
                kind="memory",
                colour="#f0e442",
            ),
            kinds=(),
        ),
        style=PartStyle(
            colour="#f0e442",
            mark="\u259e",
            ascii=":",
            terminal="blue",
        ),
        bound=PartBound(
            name="memory",
            subject="moving data to and from memory",
        ),
        removed_by=None,
    ),
    PartDeclaration(
        field="exposed_launch_ns",
        label="waiting for launches",
        heading="Launches",
        meaning=(
            "Nothing is in flight. A kernel, a collective, a send or a receive could begin, but "
            "the host has not launched it yet."
        ),
        always=False,
        doing=PartActivity(
            field="launch",
            label="waiting for launches",
            in_flight=None,
            lane=PartLane(
                kind="launch",
                colour="#f2b48c",
            ),
            kinds=("launch",),
        ),
        style=PartStyle(
            colour="#009e73",
            mark="\u25a4",
            ascii="-",
            terminal="magenta",
        ),
        bound=PartBound(
            name="hosts",
            subject="waiting for hosts to compute or to launch the next work",
        ),
        removed_by=PartSetting(
            what="launches that take no time, as with a CUDA graph",
            key="npu.launch",
            value="0 ns",
        ),
    ),
    PartDeclaration(
        field="exposed_host_ns",
        label="waiting for the host",
        heading="Host",
        meaning="Only work of the host is in flight: recorded operators, data loading.",
        always=False,
        doing=PartActivity(
            field="host",
            label="host",
            in_flight="host_ns",
            lane=PartLane(
                kind="host",
                colour="#5b5b5b",
            ),
            kinds=("host",),
        ),
        style=PartStyle(
            colour="#5b5b5b",
            mark="\u25a5",
            ascii="*",
            terminal="cyan",
        ),
        bound=PartBound(
            name="hosts",
            subject="waiting for hosts to compute or to launch the next work",
        ),
        removed_by=None,
    ),
    PartDeclaration(
        field="idle_ns",
        label="idle",
        heading="Idle",
        meaning="Nothing is in flight: pipeline bubbles, and the time after the rank's end.",
        always=True,
        doing=None,
        style=PartStyle(
            colour="#c8c8c8",
            mark="\u2591",
            ascii=".",
            terminal="bright_black",
        ),
        bound=PartBound(
            name="waiting",
            subject="waiting for other ranks",
        ),
        removed_by=None,
    ),
)
"""The parts of the step by precedence, idle time last. They sum to it."""
