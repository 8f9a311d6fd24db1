"""The options of `dlrm`, and the sizes that follow from them and the model.

Not here: how tables are sharded (`model/sharding.py`), the training flow (`dlrm_flow.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, NamedTuple, get_args

from ..errors import InputError, Problem
from ..model import precision
from ..model.dlrm import Dlrm
from ..model.limits import LARGEST, check_counts
from ..model.messages import WIDTHS, Messages, Width
from ..model.precision import Precision
from ..model.sharding import Optimizer, Scheme
from ..model.sharding_plan import ShardingPlan
from ..option_fields import Written, read, types
from ..sizes import byte_count
from ..units import counted
from . import buckets

Flow = Literal["hoti", "neo"]
DenseOptimizer = Literal["sgd", "momentum", "adagrad", "adam"]
Bottom = Literal["shared", "first"]
TableMemory = Literal["device", "host"]

MOST_SAMPLES = 2**36
"""Samples of the largest batch over all NPUs."""

MOST_RATE = 10**15
"""Bytes or samples per second, at most."""

MOST_SKEW = 4.0
"""Largest exponent of Zipf's law."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of `dlrm`."""

    dp: int
    """NPUs that each take a part of the batch."""
    local_batch: int | None = None
    """Samples of a step on an NPU. Default: the model's, unless global-batch is given."""
    global_batch: int | None = None
    """Samples of a step over all NPUs, instead of local-batch."""
    passes: int = 1
    """Iterations."""
    flow: Flow | None = None
    """hoti: inputs are already in place; neo: lengths and indices are distributed first. Default:
    the model's."""
    pipeline: bool = True
    """With neo: distribute the inputs of the next iteration during the top MLP of this one."""
    overlap: bool = True
    """Computation goes on while pooled rows, their gradients and weight gradients are exchanged.
    Inputs have pipeline instead."""
    bucket_mb: float | None = None
    """Gradients of the MLPs are all-reduced in buckets of at most this many MB, which layers share.
    Default: each layer's on their own."""
    sharding: Scheme = "auto"
    """How tables are split over NPUs: whole, by column, by row, rows within a node, or copied
    (data)."""
    column_shards: int | None = None
    """Pieces of a table that is split by column. Default: the fewest that give every NPU one."""
    plan: str | ShardingPlan | None = None
    """A sharding plan, or the file of one, which says where each shard of each table is, instead of
    sharding and column-shards."""
    ranks_per_node: int = 8
    """NPUs of a node, which share the rows of a table with table_row."""
    capacity: Annotated[str | int | None, Written("BYTES")] = None
    """The most bytes of tables on an NPU, such as 32 GB."""
    tier: TableMemory = "device"
    """Memory that holds the tables: device, or host with a cache on the NPU. A plan says it for
    each table instead."""
    cache: Annotated[str | int | None, Written("BYTES")] = None
    """Size of an NPU's cache of the tables on its host, such as 20 GB. Needed with such tables."""
    skew: float = 1.05
    """How unequally rows are looked up: row i in proportion to i^-skew. It decides what the cache
    misses."""
    fused: bool = True
    """One kernel looks up all tables of an NPU, and one updates them; otherwise three for each
    table."""
    host_inputs: bool = False
    """Inputs are first copied from the host, over the platform's remote_memory."""
    precision: Precision | None = None
    """Numbers of the MLPs: weights and activations. Default: the model's."""
    gradient_precision: Precision | None = None
    """Numbers of the gradients that are all-reduced. Default: the model's."""
    table_precision: Precision | None = None
    """Numbers in the tables. Default: the model's."""
    messages: Annotated[str | None, Written("NAME=FORMAT,...")] = None
    """Formats of what is sent, as armillary train takes them, such as forward=fp16,backward=bf16:
    forward, backward, reduce-scatter, all-reduce as fp32, fp16, bf16, int8 or fp8. Default: as
    precision, and all-reduce as gradient-precision."""
    index_width: int = 8
    """Bytes of an index on the network."""
    length_width: int = 4
    """Bytes of a length on the network."""
    optimizer: Optimizer = "rowwise_adagrad"
    """Optimizer for the embedding tables."""
    dense_optimizer: DenseOptimizer = "sgd"
    """Optimizer for the MLPs."""
    elementwise: bool = False
    """Activations, gathering of features and the update of the MLPs take time."""
    host_us: int = 0
    """Microseconds that the host works before each iteration, as for reading samples."""
    front_end: int | None = None
    """Bytes per second of a host's card in the front-end network, through which samples arrive and
    checkpoints leave."""
    front_end_us: int = 0
    """Microseconds of latency of that network."""
    readers: int | None = None
    """Samples per second that readers make, for all NPUs together."""
    checkpoint_every: int | None = None
    """Steps from one checkpoint to the next. Each step writes the same part of it: to the host,
    over the platform's remote_memory, and through front-end, if there is one."""
    bench: str | None = None
    """A file of armillary bench with the parts of this model's step. The step is then as armillary
    train does it: samples are made, lookups distributed, a loss computed and scores kept, all in
    the time that was measured; gradients of each MLP are all-reduced together, and one optimizer
    step follows. Instead of host-us."""
    bottom: Bottom = "shared"
    """shared: the bottom MLP is data-parallel; first: NPU 0 does it for the whole batch, holds no
    tables, and sends its output in the all-to-all."""

    @property
    def capacity_bytes(self) -> int | None:
        """Bytes of `capacity`. Raises `InputError`."""
        return None if self.capacity is None else byte_count(self.capacity, "capacity")

    @property
    def cache_bytes(self) -> int | None:
        """Bytes of `cache`. Raises `InputError`."""
        return None if self.cache is None else byte_count(self.cache, "cache")


class Wires(NamedTuple):
    """Bytes on the network."""

    forward: Width
    """Width of pooled rows."""
    backward: Width
    """Width of gradients of pooled rows."""
    reduce_scatter: Width
    """Width of pooled rows that are added up."""
    all_reduce: Width
    """Width of gradients of the MLPs."""


@dataclass(frozen=True, slots=True)
class DlrmSizes:
    """Samples of an NPU, and bytes of an element."""

    local_batch: int
    wires: Wires
    dense: int
    gradient: int
    embedding: int
    forward: int
    backward: int
    index: int
    length: int


def options(model: Dlrm, given: Mapping[str, object]) -> tuple[Options, DlrmSizes]:
    """The options `given`, and what follows from them for `model`. Raises `InputError` listing
    every problem, with the nearest values that work."""
    chosen = read(Options, model.name, given)
    names = ("dp", "passes", "ranks_per_node", "index_width", "length_width")
    problems = check_counts({name: getattr(chosen, name) for name in names}) + _check_words(chosen)
    problems += precision.problems(
        precision=chosen.precision,
        gradient_precision=chosen.gradient_precision,
        table_precision=chosen.table_precision,
    )
    if not 0 <= chosen.host_us <= LARGEST:
        said = f"{chosen.host_us} is out of range"
        problems.append(Problem("", "host_us", said, f"0 to {LARGEST}"))
    if chosen.bottom == "first":
        problems += _check_first(chosen)
    problems += _check_cache(chosen) + _check_hosts(chosen) + buckets.check(chosen.bucket_mb)
    if chosen.bench is not None:
        problems += _check_bench(chosen)
    if chosen.plan is not None and chosen.column_shards is not None:
        said = "given together with plan, which says how tables are split"
        problems.append(Problem("", "column_shards", said, "one of them"))
    if chosen.plan is not None and chosen.sharding != "auto":
        said = "given together with plan, which says how each table is split"
        problems.append(Problem("", "sharding", said, "one of them"))
    samples = _samples(model, chosen, problems)
    if not problems and samples * chosen.dp > MOST_SAMPLES:
        said = f"too many samples over all NPUs: {samples * chosen.dp}"
        problems.append(Problem("", "local_batch", said, f"{MOST_SAMPLES}"))
    if problems:
        raise InputError(problems)
    dense = precision.BYTES[chosen.precision] if chosen.precision else model.width
    gradient = (
        precision.BYTES[chosen.gradient_precision]
        if chosen.gradient_precision
        else model.gradient_width
    )
    table = (
        precision.BYTES[chosen.table_precision] if chosen.table_precision else model.embedding_width
    )
    wires = _wires(chosen, dense, gradient)
    sent = wires.forward.element, wires.backward.element
    sizes = DlrmSizes(
        samples, wires, dense, gradient, table, *sent, chosen.index_width, chosen.length_width
    )
    return chosen, sizes


def _wires(chosen: Options, dense: int, gradient: int) -> Wires:
    """Bytes on the network: those of `messages`, and for what it does not name those of the
    numbers that are sent."""
    named = {} if chosen.messages is None else Messages.named(chosen.messages)
    plain = {"forward": dense, "backward": dense, "reduce_scatter": dense, "all_reduce": gradient}
    return Wires(
        **{
            name: WIDTHS[named[name]] if name in named else Width(width, 0)
            for name, width in plain.items()
        }
    )


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _check_words(chosen: Options) -> list[Problem]:
    problems = []
    hints = types(Options)
    for key in ("flow", "dense_optimizer", "bottom", "tier"):
        allowed = [
            word
            for each in (hints[key], *get_args(hints[key]))
            for word in get_args(each)
            if isinstance(word, str)
        ]
        value = getattr(chosen, key)
        if value is not None and value not in allowed:
            problems.append(Problem("", key, f"unknown {key} {value!r}", ", ".join(allowed)))
    return problems


def _check_first(chosen: Options) -> list[Problem]:
    problems = []
    if chosen.dp < 2:
        said = f"{counted(chosen.dp, 'NPU')}: none is left for the tables"
        problems.append(Problem("", "bottom", said, "shared, or dp from 2"))
    if chosen.plan is None and chosen.sharding not in ("table", "column"):
        said = f"sharding {chosen.sharding} puts tables on the NPU of the bottom MLP"
        problems.append(Problem("", "bottom", said, "shared, or sharding table or column"))
    return problems


def _check_bench(chosen: Options) -> list[Problem]:
    """Options that say otherwise than a measured step, where layers have no all-reduces of their
    own and all exchanges overlap."""
    others = {
        "host_us": chosen.host_us,
        "bottom first": chosen.bottom == "first",
        "overlap false": not chosen.overlap,
        "bucket_mb": chosen.bucket_mb is not None,
    }
    return [
        Problem("", "bench", f"given together with {other}", "one of them")
        for other, given in others.items()
        if given
    ]


def _check_cache(chosen: Options) -> list[Problem]:
    problems = []
    if chosen.plan is not None and chosen.tier != "device":
        said = "given together with plan, which says it for each table"
        problems.append(Problem("", "tier", said, "one of them"))
    if chosen.tier == "host" and chosen.cache is None:
        said = "is missing: tables are in the host's memory"
        problems.append(Problem("", "cache", said, "a size, such as 20 GB"))
    for size in ("capacity_bytes", "cache_bytes"):
        try:
            getattr(chosen, size)
        except InputError as error:
            problems += error.problems
    if not 0 <= chosen.skew <= MOST_SKEW:
        problems.append(Problem("", "skew", f"invalid skew: {chosen.skew}", f"0 to {MOST_SKEW:g}"))
    return problems


def _check_hosts(chosen: Options) -> list[Problem]:
    names = ("front_end", "readers", "checkpoint_every")
    problems = check_counts(
        {name: value for name in names if (value := getattr(chosen, name)) is not None},
        front_end=MOST_RATE,
        readers=MOST_RATE,
    )
    if not 0 <= chosen.front_end_us <= LARGEST:
        said = f"{chosen.front_end_us} is out of range"
        problems.append(Problem("", "front_end_us", said, f"0 to {LARGEST}"))
    if chosen.front_end_us and chosen.front_end is None:
        said = "has no effect: there is no front_end"
        problems.append(Problem("", "front_end_us", said, "front_end, such as 12500000000"))
    return problems


def _samples(model: Dlrm, chosen: Options, problems: list[Problem]) -> int:
    """Samples of an iteration on one NPU."""
    npus, batch = chosen.dp, chosen.global_batch
    if chosen.local_batch is not None and batch is not None:
        said = "given together with local_batch"
        problems.append(Problem("", "global_batch", said, "one of them"))
    if batch is None:
        samples = _or(chosen.local_batch, model.local_batch)
        problems += check_counts({"local_batch": samples}, local_batch=LARGEST // 2)
        return samples
    wrong = check_counts({"global_batch": batch}, global_batch=LARGEST // 2)
    if not wrong and not check_counts({"dp": npus}) and batch % npus:
        below = batch // npus * npus
        near = ", ".join(str(each) for each in (below, below + npus) if each)
        said = f"{batch} samples are not divisible by {npus} NPUs"
        wrong = [Problem("", "global_batch", said, near)]
    problems += wrong
    return 1 if wrong or check_counts({"dp": npus}) else batch // npus
