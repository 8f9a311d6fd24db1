"""`plan`: the model decides what is planned. `plan_tables` chooses a sharding plan for a model on a
platform, the main path of this package; decoders are planned by `layouts`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from .. import old_words
from ..errors import InputError, Problem
from ..sizes import byte_count

if TYPE_CHECKING:
    from ..model.files import Model
    from ..platform import AnyPlatform
    from .candidates import Searched
    from .choice import Plan, Progress
    from .costs import CostModel


def plan(
    model: str | os.PathLike[str] | Model,
    platform: AnyPlatform | Sequence[AnyPlatform],
    ranks: int | Sequence[int] | None = None,
    **given: Any,  # noqa: ANN401 - options of either kind of plan
) -> Any:  # noqa: ANN401 - the model decides
    """The best plan of a model: of a decoder a layout, of a recommendation model where its tables
    are.

    A decoder gives what `armillary.layouts.run.plan_layouts` returns, a `LayoutPlan`, or a
    `MachinePlan` for several platforms or numbers of ranks:
    `plan("llama-3-8b", ["dgx-h100-16n", "dgx-a100-16n"], [64, 128])`. A recommendation model gives
    the `Plan` of `armillary.plan.run.plan_tables`: `plan("dlrm-neo-a", "zionex", 128)`. `given` are
    their options. Raises `InputError` as they do."""
    from ..model.files import DECODERS, load_model

    loaded = load_model(model)
    if loaded.family in DECODERS:
        from ..layouts.run import plan_layouts

        return plan_layouts(loaded, platform, ranks, **given)
    several = {"platform": platform, "ranks": ranks}
    problems = [
        Problem("plan", name, "several are for decoders", "one")
        for name, value in several.items()
        if isinstance(value, Sequence) and not isinstance(value, str)
    ]
    if problems:
        raise InputError(problems)
    return plan_tables(loaded, platform, ranks, **given)  # type: ignore[arg-type]


def plan_tables(  # noqa: PLR0913 - keywords of a public function
    model: str | os.PathLike[str] | Model,
    platform: AnyPlatform,
    ranks: int | None = None,
    *,
    cost: CostModel = "platform",
    access_weight: float = 1.0,
    message_weight: float = 1.0,
    capacity: int | str | None = None,
    ranks_per_node: int | None = None,
    schemes: Sequence[str] | None = None,
    host_capacity: int | str | None = None,
    near: bool = False,
    simulate: bool = True,
    backend: str | None = None,
    progress: Progress | None = None,
    **given: object,
) -> Plan:
    """Chooses how each table of a recommendation model is sharded, and on which rank each shard is:
    `plan_tables("dlrm-neo-a", "zionex", 128)`.

    Searches keep the greatest load of a rank, a sum of costs, low. A training step is simulated
    with the best plans by costs and with simple ones, and the plan with the fastest step is chosen.
    That is not an optimum: other plans may be faster. With `simulate=False`, or where no step can
    be simulated, the plan with the lowest costs is chosen (`Plan.by_costs` says why). `backend` is
    the network of these simulations: by default the platform's, or `analytical` where that has
    packets or flits. `passes` among the options simulates that number of steps, for their mean.

    No rank holds more than `capacity`, in bytes or such as "32 GB" (default: what
    surely fits the memory of the platform's NPU; with `near`, what may). `cost` is `platform`
    (seconds, by the platform's kernels and simulated collectives) or `volume` (the paper's weighted
    bytes, with `access_weight` and `message_weight`). `schemes` are the ways to shard a table that
    may be taken: `table`, `column`, `row`, `table_row`, `data`. `given` are options of the
    workload: batches, precisions, optimizers. With `cache`, memory of a rank for rows of tables in
    slower memory, tables go to its host if they have no room otherwise; `skew` is that of their
    lookups. A host holds `host_capacity` of a rank (default: `remote_memory.cpu.capacity` of
    the platform, if it has that). What is more goes to the disk of the platform
    (`remote_memory.nvme`).

    Raises:
        InputError: wrong options; a model without embedding tables; no plan has room, with how many
            ranks would, or how many bytes of a host or a disk are missing.
    """
    from dataclasses import replace

    from ..model import load_model
    from ..model.dlrm import parse
    from ..platform.platform import fit_limits
    from ..workload.dlrm_options import options
    from . import choice  # with the first plan, not with the package: it loads numpy
    from .candidates import Task
    from .costs import Sizes, platform_rates, volume_rates
    from .simulated import Step, backend_of
    from .tiers import Room

    given = old_words.today("dlrm", given)
    loaded = load_model(model)
    found = parse(loaded)
    target = choice.sized(platform, ranks)
    count = target.npus
    facts = target.describe()
    each = choice.node_of(ranks_per_node, count, facts)
    choice.refuse_decided(given)
    chosen, widths = options(found, {**given, "dp": count, "ranks_per_node": each})
    choice.check(cost, count, each, access_weight, message_weight)
    choice.check_backend(backend, simulate)
    allowed = choice.schemes_of(schemes)
    size = facts["npu"].get("memory_capacity_bytes")
    most, hosts = _sizes(capacity=capacity, host_capacity=host_capacity)
    if not (size if most is None else most):
        needed = "such as 80 GB, or --capacity"
        raise InputError([Problem(target.source, "npu.memory.capacity", "is missing", needed)])
    sizes = Sizes(
        count,
        each,
        widths.local_batch,
        widths.embedding,
        widths.gradient,
        widths.forward,
        widths.backward,
        widths.index,
        chosen.optimizer,
        chosen.fused,
        (chosen.flow or found.flow) == "neo",
    )
    volume = cost == "volume"
    rates = volume_rates(access_weight, message_weight) if volume else platform_rates(target, each)
    task = Task(
        found,
        sizes,
        rates,
        chosen.skew,
        chosen.cache_bytes,
        choice.dense_bytes(found, widths, chosen),
        allowed,
        [choice.ways_of(table, sizes, rates, allowed) for table in found.tables],
        Room.of(facts, hosts, target.source),
        lambda: choice.require_host(target, rates),
    )
    say = progress or (lambda _: None)

    def within(held: int) -> Searched:
        """The best plan by costs whose ranks hold `held` bytes at most."""
        outcome = task.search(task.menu, held, lambda share: say(choice.SEARCH * share))
        if outcome.found.best is None:
            dense = int(task.used(outcome.away)[0])
            raise InputError([choice.no_room(outcome.menu, sizes, dense, held)])
        return outcome

    if most is not None:
        held, whole, near_load = most, within(most), None
    else:
        held, whole, near_load = choice.surely_fitting(within, size, near)
    network = backend_of(target, backend)
    step = Step(loaded, target, network, {**given, "dp": count, "ranks_per_node": each})
    unable = choice.unable(facts, chosen) if simulate else "no simulation was asked for"
    kept, steps = choice.simulated_choice(task, whole, held, step, unable, say)
    result = choice.result_of(task, target.name, cost, whole, kept, steps)
    memory = max(result.memory)
    return replace(
        result,
        capacity=size if most is None else most,
        fits="near" if most is None and memory > fit_limits(size)[0] else "yes",
        near_load=near_load,
        backend=None if steps.failed else network,
    )


def _sizes(**given: int | str | None) -> list[int | None]:
    """Bytes of sizes, those that are given. Raises `InputError`."""
    return [None if each is None else byte_count(each, name) for name, each in given.items()]
