"""The rate of training with parameter servers, which has no steps that all machines share.

The time of twice the steps of each trainer, without that of the steps once, is time in the middle
of many steps: what begins and what ends is not in it.

Not here: what trainers and servers do (`workload/servers.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .. import old_words
from ..api import simulate
from ..errors import InputError, Problem
from ..model.files import Model
from ..option_fields import read
from ..platform import AnyPlatform, Platform
from ..result import Result
from ..units import NS_PER_S
from ..workload.servers import COMPUTED, ServerOptions, parameter_servers


@dataclass(frozen=True, slots=True)
class ServerRates:
    """Rate of a system with parameter servers."""

    samples_per_second: float
    """Samples per second of all trainers."""
    trainers: float
    """Share of the time in which a trainer computes, mean over the trainers."""
    servers: float
    """The same of sparse servers."""
    dense_servers: float
    """The same of dense servers."""


def rates(
    model: str | Model,
    platform: AnyPlatform,
    *,
    backend: str | None = None,
    **given: object,
) -> ServerRates:
    """Samples per second, and how busy machines are: `rates("dlrm-neo-a", "cpus.yml", trainers=15,
    servers=45)`.

    `given` are the options of `parameter_servers`; `steps` is a multiple of `sync_every`. The
    platform is resized to one NPU for each machine.

    Raises:
        InputError: wrong options, or a platform of another size.
    """
    given = old_words.today("parameter_servers", given)
    chosen = read(ServerOptions, "parameter_servers", given)
    if chosen.steps % max(chosen.sync_every, 1):
        said = f"{chosen.steps} steps do not end with an exchange of the MLPs"
        raise InputError([Problem("", "steps", said, f"a multiple of {chosen.sync_every}")])
    target = Platform.of(platform, npus=chosen.ranks)
    once, twice = (
        simulate(
            parameter_servers(model, **{**given, "steps": times * chosen.steps}),
            target,
            backend=backend,
        )
        for times in (1, 2)
    )
    seconds = (twice.step_time_ns - once.step_time_ns) / NS_PER_S
    samples = chosen.trainers * chosen.threads * chosen.steps * chosen.local_batch
    before, after = _computed(once), _computed(twice)
    busy = {
        tier: sum(after.get(name, 0.0) - before.get(name, 0.0) for name in names) / seconds
        for tier, names in COMPUTED.items()
    }
    return ServerRates(
        samples / seconds,
        busy["trainers"] / chosen.trainers,
        busy["servers"] / chosen.servers,
        busy["dense_servers"] / chosen.dense_servers,
    )


def _computed(result: Result) -> Mapping[str, float]:
    """Seconds of each computation over all machines."""
    rows = result.report["operations"]
    return {row["name"]: row["total_ns"] / NS_PER_S for row in rows if row["kind"] == "compute"}
