"""The way of activations from a stage of a pipeline to the next one.

Engines send two tensors, the hidden states and the residual, in 16 bits. Each rank of tensor
parallelism sends its part of them, and the ranks of the next stage then gather the rest (vLLM 0.19,
`distributed/parallel_state.py`, `send_tensor_dict` with `all_gather_group`; SGLang 0.5.10,
`managers/scheduler_pp_mixin.py`). Both are simulated on the platform's network, with all stages at
once. Here: seconds by tokens. Not here: when a step passes the stages (`crates/serve`)."""

from __future__ import annotations

from collections.abc import Sequence

from .. import _core
from ..platform import Platform
from ..workload.program import Program
from .layout import Layout

TENSORS = 2
"""Hidden states and the residual."""


def between(
    platform: Platform,
    layout: Layout,
    hidden: int,
    tokens: Sequence[int],
    backend: str | None = None,
) -> list[float]:
    """Seconds of the way for each number of tokens of a rank: the mean over the stages.

    An engine has the first NPUs of the platform, stage by stage."""
    return [
        _way(platform, layout, TENSORS * 2 * count * hidden, backend) if count else 0.0
        for count in tokens
    ]


def _way(platform: Platform, layout: Layout, size: int, backend: str | None) -> float:
    """Seconds of `size` bytes that each rank of a stage needs from the one before."""
    width, tp = layout.stage, layout.tp
    part = -(-size // tp)
    programs = [Program() for _ in range(platform.npus)]
    groups: dict[str, list[int]] = {}
    last: dict[int, list[int]] = {}
    for stage in range(1, layout.pp):
        for place in range(width):
            before, rank = (stage - 1) * width + place, stage * width + place
            programs[before].send(f"{before}.send", [], width, part, rank)
            found = [programs[rank].recv(f"{rank}.receive", [], -width, part, rank)]
            if tp > 1:
                first = rank - place % tp
                groups[f"ranks {first}"] = list(range(first, first + tp))
                found = [
                    programs[rank].collective(
                        f"{rank}.gather", found, "all_gather", part, f"ranks {first}"
                    )
                ]
            last[rank] = found
    for program in programs:
        if not len(program):
            program.compute("idle", [])
    everyone = list(range(platform.npus))
    workload = _core.Workload.listed(
        "stages", programs, everyone, list(groups.items()), [], None, []
    )
    ends = _core.ends(workload, platform._core, backend, list(last))
    times = [ends[at][node] for at, nodes in enumerate(last.values()) for node in nodes]
    stages = [max(times[at : at + width]) for at in range(0, len(times), width)]
    return sum(stages) / len(stages) / 1e12
