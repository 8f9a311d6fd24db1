"""Work of hosts next to the steps of a recommendation model: samples arrive, checkpoints leave.

Model. Each host has a card of a network of its own, the front end, which sends and receives at the
same time. In each step

    samples       of the next batch arrive: those of all NPUs of a host through its card, and those
                  of all hosts as fast as the readers make them
    checkpoints   weights and states of the optimizers are written every `checkpoint_every` steps,
                  the same part in each step: from an NPU to its host, and through the card

What all NPUs hold alike is written once, an equal part by each NPU. Every host takes as long as the
one that writes most. Source: Mudigere et al., Neo and ZionEX, ISCA 2022, sections 6.2 and 7.1."""

from __future__ import annotations

from ..units import PS_PER_S, PS_PER_US
from .dlrm_flow import DENSE_OPTIMIZERS, DlrmRun, HostWork, input_bytes

_SECOND = int(PS_PER_S)
"""Picoseconds."""


def host_work(run: DlrmRun) -> HostWork:
    """Work of hosts in each step."""
    chosen, each = run.options, min(run.options.ranks_per_node, run.options.dp)
    reading = writing = copied = 0
    if chosen.readers is not None:
        reading = -(-run.batch * _SECOND // chosen.readers)
    if chosen.front_end is not None:
        latency = int(chosen.front_end_us * PS_PER_US)
        arriving = each * input_bytes(run) * _SECOND
        reading = max(reading, latency - (-arriving // chosen.front_end))
    if chosen.checkpoint_every is not None:
        saved = [_saved(run, npu) for npu in range(chosen.dp)]
        hosts = [sum(saved[first : first + each]) for first in range(0, chosen.dp, each)]
        copied = -(-max(saved) // chosen.checkpoint_every)
        if chosen.front_end is not None:
            leaving = -(-max(hosts) // chosen.checkpoint_every) * _SECOND
            writing = latency - (-leaving // chosen.front_end)
    return HostWork(reading, writing, copied)


def _saved(run: DlrmRun, npu: int) -> int:
    """Bytes that an NPU writes in a checkpoint."""
    placement, count = run.placement, run.options.dp
    whole, node = placement.on(npu)
    loads = [(whole, 1), (node, placement.npus_per_node), (placement.row, count)]
    loads.append((placement.data, count))
    width, optimizer = run.sizes.embedding, run.options.optimizer
    tables = sum(-(-sum(load.bytes(width, optimizer)) // ways) for load, ways in loads)
    held = run.sizes.dense + DENSE_OPTIMIZERS[run.options.dense_optimizer]
    return tables - (-run.model.dense_parameters * held // count)
