"""Whether the programs take as long as the recording did, with every duration as recorded.

Here: one run under `scheduler.replay_only`, compared rank by rank. It shows whether order,
resources and dependencies hold what the recording had; it does not test the network, which takes no
part in it."""

from __future__ import annotations

from dataclasses import replace

from ... import _core
from ...platform import Platform
from ...units import PS_PER_MS
from .imported import Imported

BOUND = 0.05
"""Deviation from which an import warns."""
_MOST = 20_000_000
"""Operations in programs above which the check is left out; ranks that share one are simulated
once."""


def check(imported: Imported, skew: bool) -> Imported:
    """The same with `replayed_ps`, and a note for ranks beyond the bound."""
    workload = imported.workload
    distinct = workload.operations // workload.ranks * workload.programs
    if distinct > _MOST:
        return replace(
            imported,
            notes=(*imported.notes, f"not replayed: {distinct:,} operations in its programs"),
        )
    settings = {"scheduler.replay_only": True}
    platform = Platform(
        f"Switch({workload.ranks})", bandwidth="100 GB/s", latency="1 us", settings=settings
    )
    finish = _core.simulate(
        workload=workload._core,
        platform=platform._core,
        backend="analytical",
        fold=True,
        detail=False,
        timeline=None,
        ranks=(),
        capture=None,
        progress=None,
    ).finish_ps()
    ranks = tuple(
        replace(e, replayed_ps=finish[e.rank] - (e.skew_ps if skew else 0)) for e in imported.ranks
    )
    wide = [entry for entry in ranks if abs(entry.deviation) > BOUND]
    notes = tuple(
        f"rank {e.rank}: its replay takes {e.replayed_ps / PS_PER_MS:,.3f} ms, {e.deviation:+.1%} "
        f"of the recorded {e.recorded_ps / PS_PER_MS:,.3f} ms"
        for e in wide
    )
    return replace(imported, ranks=ranks, notes=(*imported.notes, *notes))
