"""Forward pass of a recommendation model over one batch, as inference runs it.

Here: the program, and the nodes that end each of its parts. Not here: where tables are
(`model/sharding.py`), the training flow (`dlrm_flow.py`), queries that wait for a batch
(`serve/queries.py`).

    inputs       copied from the host (`host_inputs`), lengths and indices by all-to-all (flow
                 `neo`)
    rows         fetched from the host or from disk, where tables are there
    lookup       one fused kernel
    bottom       the bottom MLP, while pooled rows travel
    exchange     what the pooled rows still need after it
    interaction  and its matrices
    top          the top MLP"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..model.files import Model
from ..model.sharding import Fetched
from .dlrm import placed, resolved
from .dlrm_flow import DlrmFlow, DlrmRun
from .workload import Workload

PARTS = ("inputs", "rows", "lookup", "bottom", "exchange", "interaction", "top")
"""Parts of a batch, in the order in which they end."""


class Forward(NamedTuple):
    """The forward pass of one batch."""

    run: DlrmRun
    workload: Workload
    ends: tuple[Mapping[str, tuple[int, ...]], ...]
    """For each rank the nodes after which a part has ended; parts without nodes are left out."""


def forward(model: str | Model, **given: object) -> Forward:
    """The forward pass of a batch: `forward("dlrm-mlperf", dp=8, local_batch=256)`.

    Options are those of `dlrm`; what belongs to training has no effect. Raises `InputError`."""
    return forward_of(resolved(model, {"optimizer": "sgd", **given}))


def forward_of(run: DlrmRun) -> Forward:
    """The same of a model whose sizes and placement are known."""
    flows = [_Flow(run, kind) for kind in run.placement.kinds]
    ends = [flow.forward() for flow in flows]
    workload = placed(run, [flow.program for flow in flows], None)
    return Forward(run, workload, tuple(ends[number] for number in _kinds(run)))


def _kinds(run: DlrmRun) -> list[int]:
    """The kind of each rank, as `placed` has it."""
    placement, ranks = run.placement, range(run.options.dp)
    if placement.node:
        each = 1 if placement.mixed else placement.npus_per_node
        return [rank // each for rank in ranks]
    numbers = {(kind.whole, kind.fetched): at for at, kind in enumerate(placement.kinds)}
    fetched = placement.fetched or (Fetched(),) * run.options.dp
    return [numbers[placement.whole[rank], fetched[rank]] for rank in ranks]


class _Flow(DlrmFlow):
    """One NPU's program of one batch, forward only."""

    rows: Sequence[int] = ()
    """Nodes that fetch rows."""

    def forward(self) -> dict[str, tuple[int, ...]]:
        """Adds the batch. Returns the nodes that end each part."""
        run, ends = self.run, dict[str, Sequence[int]]()
        ends["inputs"] = self._inputs([])
        ends["lookup"] = self._lookup(ends["inputs"])
        ends["rows"] = self.rows
        pooled = [] if self.alone else self._pool(ends["lookup"])
        self._wait(pooled)
        for layer in self.bottoms:
            self._forward(layer)
        ends["bottom"] = self.at if self.bottoms else ()
        ends["exchange"] = self._pool(self.at) if self.alone else pooled
        self._interact(ends["exchange"])
        ends["interaction"] = self.at
        for layer in run.model.top:
            self._forward(layer)
        ends["top"] = self.at
        return {name: tuple(ends[name]) for name in PARTS if ends[name]}

    def _fetch(self, inputs: Sequence[int]) -> list[int]:
        found = super()._fetch(inputs)
        self.rows = found[len(inputs) :]
        return found
