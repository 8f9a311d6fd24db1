"""Training of a recommendation model with parameter servers, where trainers wait for no one.

Model (Mudigere et al., Neo and ZionEX, ISCA 2022, section 2 and Fig. 3). Ranks are trainers, then
sparse servers, which hold the tables, then dense servers, which hold the MLPs:

    a step of a trainer     asks every sparse server for rows, and waits for them
                            forward and backward pass of its own copy of the MLPs
                            sends every sparse server the gradients of its rows
    a sparse server         looks up and pools rows; updates rows, without locks (Hogwild)
    every `sync_every`      a trainer exchanges its MLPs with the dense servers, which move their
                            copy and the trainer's to each other (elastic averaging). Steps go on
                            meanwhile

A trainer has `threads` steps under way, which take turns at its processor. Servers serve requests
one after the other, as they come. Bytes and operations of tables are those of `dlrm_flow.py`.

Not here: the rate of such a system (`plan/servers.py`), what asynchronous training learns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import InputError
from ..model import precision
from ..model.dlrm import Dlrm, parse
from ..model.files import Model, load_model
from ..model.limits import check_counts
from ..model.precision import BYTES, Precision
from ..model.sharding import ShardingRequest, TableLoad, place
from ..option_fields import read, takes_options
from .dlrm_flow import lookup_of, update_of
from .program import Program
from .workload import Workload

_REQUEST, _ROWS, _GRADIENTS, _DENSE, _AVERAGE = range(5)
"""Contents of messages; with the thread their tags."""
_TAGS = 5

COMPUTED = {
    "trainers": ("mlp",),
    "servers": ("lookup", "update"),
    "dense_servers": ("average",),
}
"""Names of the computations of each kind of machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerOptions:
    """The options of `parameter_servers`."""

    trainers: int
    """Trainers."""
    servers: int
    """Sparse servers, which share out the tables."""
    dense_servers: int = 1
    """Dense servers, which share out the MLPs."""
    local_batch: int = 150
    """Samples of a step of a trainer."""
    threads: int = 2
    """Steps that a trainer has under way at once."""
    steps: int = 10
    """Steps of each thread."""
    sync_every: int = 10
    """Steps of the first thread from one exchange of the MLPs to the next."""
    precision: Precision = "fp32"
    """Numbers of MLPs, pooled rows and their gradients."""
    table_precision: Precision = "fp32"
    """Numbers in the tables."""
    index_width: int = 8
    """Bytes of an index."""

    @property
    def embedding(self) -> int:
        """Bytes of an element of a table."""
        return BYTES[self.table_precision]

    @property
    def gradient(self) -> int:
        """Bytes of an element of a row's gradient."""
        return BYTES[self.precision]

    @property
    def forward(self) -> int:
        """Bytes of an element of a pooled row."""
        return BYTES[self.precision]

    @property
    def backward(self) -> int:
        """Bytes of an element of a pooled row's gradient."""
        return BYTES[self.precision]

    @property
    def index(self) -> int:
        """Bytes of an index."""
        return self.index_width

    @property
    def ranks(self) -> int:
        """All machines."""
        return self.trainers + self.servers + self.dense_servers


@takes_options(ServerOptions)
def parameter_servers(model: str | Model, **given: object) -> Workload:
    """Trainers and parameter servers: `parameter_servers("dlrm-neo-a", trainers=15, servers=45)`.

    The options are the fields of `ServerOptions`. Raises `InputError` listing every problem."""
    found = parse(load_model(model))
    chosen = read(ServerOptions, found.name, given)
    formats = {"precision": chosen.precision, "table_precision": chosen.table_precision}
    names = [name for name in ServerOptions.__slots__ if name not in formats]
    problems = check_counts({name: getattr(chosen, name) for name in names})
    problems += precision.problems(**formats)
    if problems:
        raise InputError(problems)
    loads = _loads(found, chosen)
    programs = [
        *(_trainer(found, chosen, loads, rank) for rank in range(chosen.trainers)),
        *(_sparse(chosen, load, rank) for rank, load in enumerate(loads, chosen.trainers)),
        *(_dense(found, chosen, at) for at in range(chosen.dense_servers)),
    ]
    return Workload.listed(f"{found.name}-servers", programs, range(chosen.ranks), {})


def _loads(model: Dlrm, chosen: ServerOptions) -> tuple[TableLoad, ...]:
    """Whole tables on sparse servers, or columns where tables are fewer."""
    scheme = "table" if len(model.tables) >= chosen.servers else "column"
    widths = chosen.embedding, chosen.gradient, chosen.forward, chosen.backward
    request = ShardingRequest(
        scheme, chosen.servers, chosen.local_batch, 1, None, *widths, "rowwise_adagrad", None
    )
    return place(model.tables, request, model.name).whole


def _asked(chosen: ServerOptions, load: TableLoad) -> int:
    """Bytes of a request: indices, and the length of each table."""
    return chosen.local_batch * (load.lookups + load.shards) * chosen.index


def _rows(chosen: ServerOptions, load: TableLoad) -> int:
    """Bytes of pooled rows, or of their gradients."""
    return chosen.local_batch * load.dims * chosen.gradient


def _part(model: Dlrm, chosen: ServerOptions) -> int:
    """Parameters of the MLPs on a dense server."""
    return -(-model.dense_parameters // chosen.dense_servers)


def _syncs(chosen: ServerOptions) -> Iterator[int]:
    """Steps of the first thread that an exchange of the MLPs follows."""
    return iter(range(chosen.sync_every - 1, chosen.steps, chosen.sync_every))


def _trainer(model: Dlrm, chosen: ServerOptions, loads: Sequence[TableLoad], rank: int) -> Program:
    program, dense = Program(), list[int]()
    ends: list[list[int]] = [[] for _ in range(chosen.threads)]
    syncs = set(_syncs(chosen))
    for step in range(chosen.steps):
        for thread in range(chosen.threads):
            ends[thread] = _step(program, model, chosen, loads, rank, thread, ends[thread])
        if step in syncs:
            dense = _exchange(program, model, chosen, rank, [*ends[0], *dense])
    return program


def _step(
    program: Program,
    model: Dlrm,
    chosen: ServerOptions,
    loads: Sequence[TableLoad],
    rank: int,
    thread: int,
    after: Sequence[int],
) -> list[int]:
    """A step of a thread; the node at whose end the next one begins."""
    first, tag = chosen.trainers - rank, thread * _TAGS
    there = [(first + at, load) for at, load in enumerate(loads) if load.dims]
    for peer, load in there:
        program.send("request", after, peer, _asked(chosen, load), tag + _REQUEST)
    rows = [
        program.recv("rows", after, peer, _rows(chosen, load), tag + _ROWS) for peer, load in there
    ]
    passes = 3 * model.operations * chosen.local_batch
    moved = 3 * model.dense_parameters * chosen.gradient
    done = program.compute("mlp", rows, operations=passes, bytes=moved, kernel="gemm")
    for peer, load in there:
        program.send("gradients", [done], peer, _rows(chosen, load), tag + _GRADIENTS)
    return [done]


def _exchange(
    program: Program, model: Dlrm, chosen: ServerOptions, rank: int, after: Sequence[int]
) -> list[int]:
    """An exchange of the MLPs; what the next one waits for."""
    sent, first = _part(model, chosen) * chosen.gradient, chosen.trainers + chosen.servers - rank
    peers = range(first, first + chosen.dense_servers)
    for peer in peers:
        program.send("weights", after, peer, sent, _DENSE)
    return [program.recv("average", after, peer, sent, _AVERAGE) for peer in peers]


def _sparse(chosen: ServerOptions, load: TableLoad, rank: int) -> Program:
    """Requests and gradients of each thread of each trainer, in its order."""
    program = Program()
    if not load.dims:
        return _idle(program)
    asked, rows = _asked(chosen, load), _rows(chosen, load)
    traffic = (
        chosen.local_batch * load.lookups,
        chosen.local_batch * load.elements,
        chosen.local_batch * load.dims,
    )
    looked = lookup_of(*traffic, chosen)
    changed = update_of(*traffic, chosen, "rowwise_adagrad", True)
    after: dict[tuple[int, int], list[int]] = {}
    for _ in range(chosen.steps):
        for trainer in range(chosen.trainers):
            for thread in range(chosen.threads):
                tag, peer, before = thread * _TAGS, trainer - rank, (trainer, thread)
                deps = after.get(before, [])
                wanted = program.recv("request", deps, peer, asked, tag + _REQUEST)
                found = program.lookup("lookup", [wanted], **looked._asdict())
                program.send("rows", [found], peer, rows, tag + _ROWS)
                given = program.recv("gradients", [wanted], peer, rows, tag + _GRADIENTS)
                program.lookup("update", [given], **changed._asdict(), update=True)
                after[before] = [given]
    return program


def _dense(model: Dlrm, chosen: ServerOptions, at: int) -> Program:
    """Weights of each trainer, in its order."""
    program, part = Program(), _part(model, chosen)
    rank = chosen.trainers + chosen.servers + at
    after: dict[int, list[int]] = {}
    for _ in _syncs(chosen):
        for trainer in range(chosen.trainers):
            peer, sent = trainer - rank, part * chosen.gradient
            given = program.recv("weights", after.get(trainer, []), peer, sent, _DENSE)
            moved = 4 * part * chosen.gradient
            made = program.compute(
                "average", [given], operations=4 * part, bytes=moved, kernel="elementwise"
            )
            program.send("average", [made], peer, sent, _AVERAGE)
            after[trainer] = [given]
    return program if len(program) else _idle(program)


def _idle(program: Program) -> Program:
    """A server that has nothing to do."""
    program.compute("idle", [], operations=0, bytes=0)
    return program
