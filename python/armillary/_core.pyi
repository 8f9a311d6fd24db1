"""The native half: reading, checking, simulating. Times are picoseconds, reports JSON text
(`armillary.report/1`)."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Self, final

from typing_extensions import disjoint_base

_Amounts = tuple[int, int, int, int]

__all__ = [
    "LayoutSpace",
    "Network",
    "Outcome",
    "PanicException",
    "Platform",
    "Program",
    "Script",
    "Served",
    "Traffic",
    "Workload",
    "astra_sim",
    "astra_sim_1",
    "backends",
    "balances",
    "blocks",
    "check",
    "check_backend",
    "collective",
    "cones",
    "end_after_signals",
    "ends",
    "fit_limits",
    "fits",
    "interruption_is_said",
    "is_backend",
    "memory",
    "outside",
    "passes",
    "platform_keys",
    "prefix_hits",
    "serve",
    "simulate",
    "version",
]

_Progress = Callable[[float, float], None]
"""Called now and then during a run with the finished share of the workload's operations (0..1) and
the simulated ns."""

_Fits = Literal["yes", "near", "no"]

class PanicException(BaseException):
    """An assertion of the simulator failed: a fault of ours, not of the input."""

@final
class Traffic:
    """Synthetic traffic on the network of a platform."""

    def __new__(
        cls,
        platform: Platform,
        backend: str,
        pattern: str,
        size: int,
        sizes: Sequence[tuple[int, float]],
        seed: int,
        hot: Sequence[int],
        share: float,
        flows: Sequence[tuple[int, int, float]],
    ) -> Traffic:
        """Messages of `size` bytes, or of sizes that are drawn: `sizes` are points of a
        distribution, bytes and cumulative share. `pattern` is one of `Traffic.patterns()`,
        `hotspot` (a `share` of the messages goes to the NPUs `hot`) or `flows` (source, destination
        and weight)."""
    @staticmethod
    def patterns() -> list[tuple[str, str]]:
        """Patterns without parameters, each with its name and what it is."""
    def injection(self) -> int:
        """Least bandwidth of all links that leave an NPU, bytes per second."""
    def cycle(self) -> tuple[float, int] | None:
        """The length of a cycle, ns, and the bytes of a flit; `None` on networks without flits."""
    def alone(self) -> tuple[float, float]:
        """Mean latencies of messages that are alone in the network, ns: of the first of a
        connection, and of a later one."""
    def run(
        self,
        rate: float,
        periodic: bool,
        precision: float,
        limit: float,
        messages_max: int,
        progress: _Progress | None,
    ) -> dict[str, Any]:
        """One load point: the busiest NPU sends `rate` bytes per second. `limit` is the mean
        latency in ns, or with drawn sizes the mean slowdown, from which the network counts as
        saturated. Keys of the result: `outcome`, `messages`, `warm_up_messages`, `offered` and
        `accepted` (bytes per second and sender), `simulated_ns`, `latency` (ns) and `links` (name,
        dimension from 0, utilisation, bytes per second). With drawn sizes also `slowdown` and
        `messages_sent`: source, destination, bytes, creation in ns, time in ns, whether it has
        arrived, time alone in ns."""

@final
class Network:
    """The network of a platform under another front end. Calls are numbered from 1."""

    def __new__(cls, platform: Platform, backend: str) -> Network:
        """The network at time 0."""
    @property
    def npus(self) -> int:
        """Number of NPUs."""
    @property
    def now(self) -> int:
        """Time, ps."""
    def send(self, src: int, dst: int, bytes: int, tag: int) -> int:
        """A message from now on; the number is due when it has arrived."""
    def receive(self, src: int, dst: int, bytes: int, tag: int) -> int:
        """A receive, posted now; the number is due when its message has arrived."""
    def schedule(self, delay: int) -> int:
        """A number that is due `delay` ps from now."""
    def access(self, npu: int, bytes: int, location: str, store: bool) -> int:
        """An access to memory from now on; the number is due when it is over."""
    def advance(self, limit: int | None) -> list[int]:
        """Numbers that are due at the next instant at which any is, in order; none where nothing
        is left until `limit`."""
    def waiting(self) -> list[tuple[str, str, str, str]]:
        """File, place, message and help for receives without a send."""

def version() -> str:
    """Version of Armillary, as in every report."""

@final
class Platform:
    """A platform, read and checked."""

    @staticmethod
    def load(name: str, search: Sequence[str], settings: Sequence[tuple[str, str]]) -> Platform:
        """Reads a platform file, or the preset found first in the folders of `search`.

        `settings` are `(dotted key, YAML value)` pairs that override the file's.
        """
    @staticmethod
    def explain(
        name: str, search: Sequence[str], settings: Sequence[tuple[str, str]]
    ) -> tuple[Platform, str]:
        """`load`, and a file that reads back to the platform; a comment after each value says where
        the value comes from."""
    @staticmethod
    def parse(
        text: str, name: str, search: Sequence[str], settings: Sequence[tuple[str, str]]
    ) -> Platform:
        """Reads the text of a platform file, which is called `name` where it is wrong; the rest as
        in `load`."""
    @staticmethod
    def inline(
        topology: str,
        bandwidth: Sequence[str],
        latency: Sequence[str],
        per: Sequence[str],
        search: Sequence[str],
        settings: Sequence[tuple[str, str]],
    ) -> Platform:
        """Stacks blocks; each list holds one value for all dimensions or one a dimension (`per` may
        be empty)."""
    @property
    def name(self) -> str: ...
    @property
    def source(self) -> str:
        """Where the numbers are from."""
    @property
    def npus(self) -> int: ...
    @property
    def backend(self) -> str:
        """The backend of a run that names none."""
    @property
    def has_library(self) -> bool: ...
    @property
    def warnings(self) -> list[str]: ...
    def library_choice(self, kind: str, bytes: int) -> tuple[str, str, int] | None:
        """Algorithm, protocol and picoseconds that the library is predicted to choose and to take
        over all NPUs.

        `None` without a library, where an algorithm is named, or with a single NPU. `bytes` as
        `collective` takes them.
        """
    def library_message(self, bytes: int) -> int | None:
        """Picoseconds that the library takes alone for a message over the outermost dimension."""
    def times(self, program: Program) -> list[tuple[str, int]]:
        """Name and picoseconds of every computation and access to memory of `program`, each by
        itself, as a run gives them. Nothing can be added to `program` afterwards.

        Raises `InputError` for an operation whose time the platform does not say."""
    def kernel_times(self, shapes: str) -> list[float]:
        """Seconds that each kernel takes alone. `shapes` is a JSON list of kernels, as
        `kernels.shapes` writes it.

        Raises `InputError` for a kernel whose time the platform does not say.
        """
    def kernel_parts(self, shape: str) -> tuple[float, float, float, list[tuple[str, float]]]:
        """Seconds, operations and bytes of the kernel in `shape`, a JSON list of one, and names and
        seconds of its parts."""
    def kernel_origin(self) -> tuple[str, str | None]:
        """Name of the NPU, and the generation whose kernels its parameters are fitted to."""
    def kernel_table(self) -> str | None:
        """Path of the file of measured kernels, if the platform names one."""
    def library_times(
        self, changes: list[tuple[str, float]], kind: str, bytes: list[int]
    ) -> list[float] | None:
        """Predicted us of each of `bytes` with parameters changed:
        `("node.step_latency[0]", 0.6)`, us or parts.

        `None` without a library. Raises `InputError` for a key that is none of its parameters.
        """
    def findings(self) -> tuple[list[tuple[str, str, str, str]], list[str]]:
        """What is wrong with the files that it names (file, place, message, what is allowed), and
        warnings of what is not known of them."""
    def fits(self, needed: int) -> _Fits | None:
        """Whether a workload fits that needs `needed` bytes of an NPU; `None` for an unknown
        capacity."""
    def to_json(self) -> str:
        """Everything the simulator will use, defaults filled in."""
    def picture(self) -> str | None:
        """The network as pages draw it, as JSON; `None` for stacks that have blocks other
        than rings and meshes."""
    def wiring(self, most: int) -> str | None:
        """Every node and cable of the network, as JSON; `None` above `most` one-way links."""
    def network_facts(self) -> str | None: ...
    def to_yaml(self) -> str:
        """A platform file that reads back to this platform."""

@disjoint_base
class Program:
    """One operation graph under construction, seen from its rank: peers are offsets, groups are
    names.

    Each method adds a node and returns its id. `deps` are ids of earlier nodes. Errors are
    `ValueError`s.
    """

    def __new__(cls, like: Program | None = None, peers: Mapping[int, int] = ...) -> Self:
        """Nothing yet, or what `like` does with other peers: the one at an offset becomes the one
        at `peers[offset]`. Neither grows any more then."""

    def compute(
        self,
        name: str,
        deps: Sequence[int],
        *,
        operations: int | None = None,
        bytes: int | None = None,
        kernel: str = "other",
        duration_ps: int = 0,
        host: bool = False,
    ) -> int:
        """A kernel of `operations` FLOPs over `bytes` of tensors; a recorded duration counts where
        those are unknown.

        `kernel` is one of other, gemm, grouped, convolution, attention, unmasked_attention,
        elementwise, normalization, embedding, embedding_update, optimizer.
        """
    def gemm(
        self,
        name: str,
        deps: Sequence[int],
        *,
        m: int,
        n: int,
        k: int,
        batch: int = 1,
        width: int = 2,
        grouped: bool = False,
    ) -> int:
        """`batch` times (m x k)(k x n), elements of `width` bytes; `grouped` as one kernel over
        groups of rows."""
    def lookup(
        self,
        name: str,
        deps: Sequence[int],
        *,
        operations: int,
        bytes: int,
        rows: int,
        update: bool = False,
    ) -> int:
        """A kernel that reads `rows` rows of embedding tables, or (`update`) reads and writes that
        many; `bytes` count those of the rows, too."""
    def collective(
        self,
        name: str,
        deps: Sequence[int],
        kind: str,
        bytes: int,
        group: str = "",
        *,
        root: int = 0,
        priority: int = 0,
        duration_ps: int = 0,
    ) -> int:
        """A collective over `group` ("" for everybody).

        `bytes` per NPU: the input buffer, or its contribution for all_gather and gather.
        """
    def send(
        self,
        name: str,
        deps: Sequence[int],
        peer: int,
        bytes: int,
        tag: int = 0,
        *,
        duration_ps: int = 0,
    ) -> int:
        """A message to the rank `peer` further on."""
    def recv(
        self,
        name: str,
        deps: Sequence[int],
        peer: int,
        bytes: int,
        tag: int = 0,
        *,
        duration_ps: int = 0,
    ) -> int:
        """A message from the rank `peer` further on."""
    def memory(
        self,
        name: str,
        deps: Sequence[int],
        bytes: int,
        *,
        store: bool = False,
        reach: str = "remote",
        tensor: int = 0,
        group: str | None = None,
        duration_ps: int = 0,
    ) -> int:
        """A load from, or a store to, memory.

        `tensor` is a number for the tensor: accesses of one program with one number are to one
        tensor, which lies there once. 0 where that is not known.

        `reach` is `local` (the NPU's own), `remote` (outside it), `host` or `disk` (that tier of
        remote memory), or `in_switch`: the shards of `bytes` of the NPUs in `group` are gathered in
        the switches of remote memory as they are loaded, reduced and scattered as they are stored.
        Without a group these are all NPUs.
        """
    def hold(self, node: int, *, allocates: int = 0, frees: int = 0) -> None:
        """Node `node` takes bytes of the NPU's memory at its start, and gives bytes back at its
        end; calls add up.

        What a workload's summary says of weights, gradients and optimizer state is held all along,
        in addition to this.
        """
    def play(
        self,
        script: Script,
        prefix: str,
        suffix: str,
        after: list[int],
        started: dict[str, int],
        ring: tuple[int, int],
        tag: int,
    ) -> tuple[list[int], int]:
        """Adds the steps of `script` after the nodes `after`, as
        `armillary.workload.script.KernelStream` describes them.

        Names of nodes get the `prefix`, those of groups the `suffix`; `started` are nodes to be
        waited for by name, `ring` the offsets of the ranks ahead and behind, `tag` that of the next
        exchange. Returns what comes after `after`, and the tag after `tag`.
        """
    def metadata(self, name: str, deps: Sequence[int]) -> int:
        """Takes no time."""
    def __len__(self) -> int: ...
    label: str
    """Layer of the model that the nodes to come belong to; where empty, each belongs to the first
    word of its name."""
    @property
    def groups(self) -> list[str]:
        """Names of the groups that operations are for, in the order of their first use."""
    @property
    def operations(self) -> int:
        """FLOPs on the NPU so far."""
    def tallied(self) -> list[tuple[str, str, int, int]]:
        """Group, kind, count and bytes of the collectives and sends so far, sorted."""

@final
class Script:
    """Steps that `Program.play` adds again and again. Errors are `ValueError`s."""

    def __init__(self) -> None: ...
    def gemm(
        self, name: str, m: int, n: int, k: int, batch: int, width: int, grouped: bool
    ) -> None:
        """`Program.gemm`, which the next step waits for."""
    def compute(self, name: str, kernel: str, operations: int, bytes: int) -> None:
        """`Program.compute`, which the next step waits for."""
    def collective(self, name: str, kind: str, bytes: int, group: str, waited: bool) -> None:
        """`Program.collective`; the next kernel waits for it or (not `waited`) runs in parallel up
        to its `wait`."""
    def exchange(self, name: str, bytes: int) -> None:
        """A message to the rank ahead and one from the rank behind, up to the `wait` of its
        name."""
    def wait(self, name: str) -> None:
        """The next kernel waits for what was started under that name."""

@final
class Workload:
    """A workload, read and checked by itself (not yet against a platform)."""

    @staticmethod
    def load(
        path: str,
        platform: Platform | None = None,
        groups: str | None = None,
        passes: int = 1,
        overlap: bool = True,
        bucket: int | None = None,
    ) -> Workload:
        """Reads `prefix.%d.et`, a prefix, a directory, a trace, an archive or a text, as many ranks
        as `platform` has.

        `groups` is a file of communicator groups, `{"1": [0, 1], ...}` in ring order. `passes` is
        how often the layers of a text run, and `bucket` the bytes in which they exchange weight
        gradients; without `overlap` computation waits for collectives. Anything else is refused
        with other values than the defaults.
        """
    @staticmethod
    def mesh(
        name: str,
        axes: Sequence[tuple[str, int]],
        groups: Sequence[tuple[str, list[str]]],
        by: Sequence[str],
        programs: Sequence[Program],
        footprints: Sequence[tuple[_Amounts, _Amounts, _Amounts]],
        summary: str | None,
        warnings: Sequence[str],
    ) -> Workload:
        """Binds one program a point of the axes `by` to a mesh of ranks, the first axis fastest.

        `footprints` are bytes by program, or empty: of weights, gradients, optimizer state and
        activations on an NPU; of weights, gradients, optimizer state and tables in the memory
        outside of it, and on a disk behind that.
        """
    @staticmethod
    def listed(
        name: str,
        programs: Sequence[Program],
        ranks: Sequence[int],
        groups: Sequence[tuple[str, list[int]]],
        footprints: Sequence[tuple[_Amounts, _Amounts, _Amounts]],
        summary: str | None,
        warnings: Sequence[str],
    ) -> Workload:
        """Binds programs to ranks by index, and the group names they use to members."""
    def write(self, path: str, chakra: bool) -> None:
        """Writes into the directory `path`: the compact form, or one Chakra trace a rank."""
    @staticmethod
    def is_text(path: str) -> bool:
        """Whether `path` is a text workload of ASTRA-sim 1.0."""
    def text(self, platform: Platform) -> tuple[str, int, list[str]]:
        """As a text workload of ASTRA-sim 1.0 with the times on `platform`: the text, its passes,
        warnings."""
    @property
    def ranks(self) -> int: ...
    @property
    def programs(self) -> int:
        """Distinct programs."""
    @property
    def operations(self) -> int: ...
    def made_of(self, model: str) -> Workload:
        """The same workload, which says that it was made of `model`, JSON text."""
    def volumes(self) -> list[tuple[int, int, list[int], str, int, int]]:
        """What each program hands to collectives and messages (kind `send`), by members of the
        group and kind.

        Program, ranks that run it, members of the group of the first of them, kind, how many, bytes
        as `collective` and `send` count them.
        """
    def amounts(self) -> list[tuple[int, int, str, list[int], int]]:
        """The operations of each program: program, ranks that run it, kind, numbers, how many.

        The numbers are batch, m, n, k and bytes of an element of a product (`gemm`, `grouped`);
        operations and bytes of a kernel; bytes of a `load` or `store`; bytes, then members, of a
        collective; bytes and both ranks of a `send`. Groups are those of a program's first rank.
        """
    def chain(self, platform: Platform, rates: Sequence[float]) -> tuple[int, list[int]]:
        """The longest chain of operations if a byte of each of `volumes` takes so many seconds.

        Picoseconds of its computations, and bytes of its collectives by volume.
        """
    @property
    def name(self) -> str | None:
        """The name its generator gave it."""
    @property
    def summary(self) -> str | None:
        """What its generator says of it, JSON text."""

@final
class Outcome:
    """What a run found."""

    def report(self) -> str:
        """The report as JSON text, the same bytes for the same input."""
    @property
    def step_ps(self) -> int:
        """End of the last rank, picoseconds."""
    @property
    def digest(self) -> str:
        """Digest of the event stream, 16 hexadecimal digits."""
    def finish_ps(self) -> list[int]:
        """End of every rank, picoseconds."""
    def finish_minus_compute_ps(self) -> list[int]:
        """End of every rank less the time it computed, picoseconds."""
    @property
    def simulated_ranks(self) -> int:
        """Ranks simulated, fewer than there are when the run was folded."""
    @property
    def events(self) -> int:
        """Events handled."""
    @property
    def timeline(self) -> tuple[int, int, int] | None:
        """Simulated ranks that the timeline shows, simulated ranks, packets of the file; `None`
        without a timeline."""

def ends(
    workload: Workload, platform: Platform, backend: str | None, ranks: Sequence[int]
) -> list[list[int]]:
    """When the nodes of each of `ranks` end, picoseconds. Runs as `simulate` does."""

def simulate(
    workload: Workload,
    platform: Platform,
    backend: str | None,
    fold: bool,
    detail: bool,
    timeline: str | None,
    ranks: Sequence[int],
    capture: str | None,
    progress: _Progress | None,
) -> Outcome:
    """Runs; releases the GIL, minds signals. Raises `InputError` or `StalledError`.

    Without a `backend` the platform's `network.model` is used.

    `timeline` is a file to write as the run goes, `ranks` which it shows (none: all there is room
    for). `capture` is a file for a capture of packets in the pcap format. Raises `OSError`, without
    a name, when a file can't be written; what is written then stays.
    """

def collective(
    kind: str,
    bytes: int,
    platform: Platform,
    backend: str | None,
    fold: bool,
    root: int,
    progress: _Progress | None,
) -> Outcome:
    """Simulates one collective over all NPUs.

    `bytes` per NPU: the input buffer, or the contribution of one NPU for `all_gather` and `gather`.
    """

def cones(
    objective: Sequence[float],
    matrix: Sequence[tuple[int, int, float]],
    right: Sequence[float],
    rows: tuple[int, int, int],
) -> tuple[str, list[float], list[float]]:
    """Minimises `objective . x`, where the rows of `right - matrix x` lie in their cones: status,
    variables, multipliers of the rows.

    `matrix` has row, column and value of each entry. Of `rows`, the first are 0, the next at least
    0, and the others come in triples, the first of which is at least the length of the other two.
    """

def fits(needed: int, capacity: int) -> _Fits:
    """Whether `needed` bytes fit a memory of `capacity` bytes (docs/models/memory.md)."""

def fit_limits(capacity: int) -> tuple[int, int]:
    """The most bytes that fit a memory of `capacity` bytes, and the most that may."""

def blocks() -> list[tuple[str, str, str, str]]:
    """Every block of a topology.

    Name, short name, by what messages pass (`direct`, `switched`, `relayed`) and which places look
    alike (`full`, `rotation`, `none`).
    """

def platform_keys() -> list[tuple[str, str, str, str, bool]]:
    """Every key of a platform file: as `--set` takes it, the type of its value, what is used
    without it, its meaning, and whether its value is a mapping."""

def backends() -> list[tuple[str, str]]:
    """Name of every network backend, the default first, and what it is."""

def is_backend(name: str) -> bool:
    """Whether a run takes this name of a backend."""

def check(
    workload: Workload, platform: Platform, backend: str | None
) -> tuple[list[tuple[str, str, str, str]], list[str]]:
    """Everything that `simulate` would refuse, as `(file, place, message, help)`, without
    simulating; where that is nothing, what it will warn of and assume, as far as that is known."""

def outside(workload: Workload, platform: Platform) -> list[tuple[str, int, int, int | None]]:
    """The fullest memory of each kind outside of the NPUs, as far as it is known before a run:
    name, ranks whose tensors lie in it, their bytes, capacity."""

def check_backend(platform: Platform, backend: str) -> list[tuple[str, int, str | None]]:
    """What the conformance suite finds about a backend on the network of a platform: what was sent,
    the number of messages, and the first rule that was broken."""

def end_after_signals(signals: bytes, seconds: float) -> int:
    """Ends the process some seconds after one of these signals, if it is still there then. Returns
    the descriptor for `signal.set_wakeup_fd`."""

def interruption_is_said() -> None:
    """Notes that the user has been told that the work was stopped."""

def astra_sim(arguments: Sequence[str]) -> tuple[int, str | None, str | None]:
    """Does what ASTRA-sim's analytical front ends do, its lines on stdout, warnings on stderr.

    Returns the exit code, the path given with `--json`, and the report for it.
    """

def astra_sim_1(network: str, system: str) -> tuple[str, list[str]]:
    """The platform file that says what a network file and a system file of ASTRA-sim 1.0 say, and
    what of them has no effect. Raises `InputError`."""

def passes(
    name: str, stage: int, stages: int, micro_batches: int, chunks: int, overlap: bool
) -> list[tuple[str, int, int, bool]]:
    """The passes of a stage in order: kind, micro-batch, chunk, whether it runs side by side with
    the pass after it. Raises `ValueError` for an unknown schedule."""

_LayoutRow = tuple[int, tuple[int, int], int, int, int, int, str]
"""Group; choice of data parallelism and place of the division among those of the group; bound,
estimate, bytes of the fullest rank, its stage, whether it fits."""
_Sizes = Sequence[int]
"""`armillary.workload.memory.Sizes`."""
_Rules = tuple[int, int, bool, int, int, int, int, str]
"""`armillary.workload.memory.Rules`."""
_Shares = tuple[int, bool, int, int, int, int, bool, bool, int | None]
"""`armillary.workload.memory.Shares`."""

def memory(
    chunks: Sequence[Sequence[_Sizes]],
    passes: Sequence[tuple[str, int, int, bool]],
    rules: _Rules,
    shares: _Shares,
) -> tuple[list[int], list[int]]:
    """Peak bytes on a rank of a stage: weights, gradients, optimizer state, activations and
    temporary bytes; and the first three of what lies outside of the NPU."""

@final
class LayoutSpace:
    """Layouts as combinations of parts; all times are ps, all sizes bytes
    (`crates/layouts`)."""

    def __new__(cls, slowdown: float) -> LayoutSpace:
        """`slowdown`: part of their speed that kernels lose next to collectives."""
    def pipeline(
        self, name: str, stages: int, micro_batches: int, chunks: int, overlap: bool
    ) -> int:
        """Adds a pipeline; its index."""
    def split(self, parts: Sequence[Sequence[int]], sharing: Sequence[int]) -> int:
        """Adds the kinds of units of each part, and the stages with a copy of the embedding; the
        index."""
    def block(self, units: Sequence[tuple[Sequence[int], _Sizes]], rules: _Rules) -> int:
        """Adds kinds of units, 20 numbers and their sizes each; the index."""
    def data(
        self,
        shares: _Shares,
        *,
        overlaps_reduction: bool,
        overlaps_gathering: bool,
        reduce: Sequence[tuple[int, int]],
        pieces: Sequence[tuple[int, int]],
        gather: Sequence[tuple[int, int]],
        replicas: Sequence[tuple[int, int]],
        reduce_all: Sequence[tuple[int, int]],
        gather_all: Sequence[tuple[int, int]],
        shared: int,
        optimizer: float,
        optimizer_each: float,
        dims: Sequence[int],
    ) -> int:
        """Adds a choice of data parallelism; its index."""
    def script(self, ops: Sequence[tuple[str, int, int, int]]) -> int:
        """Adds operations (kind, time, dimensions, number); the index."""
    def messages(self, times: Sequence[int]) -> int:
        """Adds times of messages into each part; the index."""
    def group(
        self,
        pipeline: int,
        splits: tuple[int, int],
        block: int,
        messages: int,
        data: tuple[int, int],
    ) -> int:
        """Adds layouts that differ in their choice of data parallelism, each with the first of
        `splits` that fits; the index."""
    @property
    def layouts(self) -> int:
        """Number of layouts."""
    def search(
        self,
        limits: tuple[int, int],
        near: bool,
        wanted: tuple[int, int],
        progress: _Progress | None,
    ) -> tuple[int, int, int, int]:
        """Finds the layouts that fit whose bounds are at most a floor: the estimate of the
        `wanted[0]`-th fastest, or `wanted[1]` if that is more. Numbers of layouts that fit, may
        fit and do not fit; the floor, which the bounds of all other layouts that fit are above."""
    @property
    def kept(self) -> int:
        """Number of the layouts that were found."""
    def fastest(self, first: int, count: int) -> list[_LayoutRow]:
        """Layouts that were found, the fastest first."""
    def refused(
        self, limits: tuple[int, int], near: bool, below: int, count: int
    ) -> list[_LayoutRow]:
        """The fastest layouts that do not fit, as far as their estimates are less than `below`."""
    def picture(
        self,
        limits: tuple[int, int],
        near: bool,
        cell_of: Sequence[int],
        progress: _Progress | None,
    ) -> tuple[
        list[tuple[tuple[int, int, int], int, _LayoutRow | None]],
        list[_LayoutRow],
    ]:
        """By cell, `cell_of` has the one of each group: numbers of layouts that fit, may fit and
        do not fit; the least bytes that one needs; the one with the smallest estimate that fits.
        Then the layouts that no other one is both faster and smaller than, by bytes."""
    def least_bytes(self) -> int:
        """The least memory that the fullest rank of any layout needs."""
    def first_that_fits(self, group: int, data: int, most: int) -> tuple[tuple[int, int], int]:
        """The layout with the first division of a group that fits `most` bytes, or else with the
        last: its choice, and the bytes of its fullest rank."""
    def held(self, group: int, choice: tuple[int, int]) -> list[tuple[int, int, int, int, int]]:
        """Weights, gradients, optimizer state, activations and temporary bytes on a rank of each
        stage."""

@final
class Served:
    """Result of a run of requests. Times are ps (`crates/serve`)."""

    def times(self) -> list[tuple[int, int, int, int]]:
        """For each request: arrival, start of its first step, first token, last token."""
    def notes(self) -> list[tuple[int, int, int, int]]:
        """For each request: preemptions, tokens found in the cache, engine, time of its
        transfer."""
    def gaps(self) -> tuple[int, int, int]:
        """Gaps between tokens: how many, their mean and the largest."""
    def gap_per_mille(self, part: int) -> int:
        """The gap that `part` of 1,000 do not exceed."""
    def sums(self) -> list[tuple[int, int, int, int, list[float]]]:
        """For each engine: steps, their requests, their tokens, time in steps, seconds of each
        part."""
    def samples(self) -> list[tuple[int, int, int, int]]:
        """From time to time: time, requests that run, requests that wait, blocks in use."""
    def lifetimes(self) -> tuple[list[tuple[int, int]], float] | None:
        """Where engines start and stop: times at which their number changed with that number, and
        seconds of all of them."""
    def write_timeline(
        self,
        path: str | os.PathLike[str],
        engines: Sequence[str],
        terms: Sequence[Sequence[str]],
    ) -> tuple[int, int, int, int]:
        """Writes a timeline in Perfetto's format: names of engines, and of the terms of each. Steps
        shown and left out, requests shown, packets."""

def serve(
    engines: Mapping[str, Any],
    decode: tuple[Mapping[str, Any], Sequence[float], Sequence[float]] | None,
    routing: str,
    imbalance: int,
    requests: Sequence[tuple[Sequence[tuple[int, int]], int, int]],
    arrivals: Sequence[int] | None,
    concurrency: int,
    progress: Callable[[float, float], None] | None,
    after: Sequence[tuple[int, int] | None] = ...,
    scaling: tuple[int, float, bool, int, int, int] | None = None,
    most: tuple[int, int] = ...,
) -> Served:
    """Runs requests (pieces, output, priority) through engines. `arrivals` are their times, or
    `None` for `concurrency` at a time. `decode` are engines that generate tokens, with the seconds
    by tokens that keys and values take to them. Contents below 0 are outputs of requests: -1 is
    that of the first one. With `after` some requests are sent after the answer to another one:
    which, and ps between. `scaling` starts and stops engines: engines at least, requests of each,
    whether only those that wait count; ps between looks, until an engine is ready, and of the
    window. `most` are steps, and requests, that a timeline shows at most."""

def balances(
    engines: Mapping[str, Any], loads: Sequence[tuple[float, float, float, float, float, float]]
) -> list[tuple[float, float, float, float]]:
    """Mean values of one engine under constant loads: seconds to the first token and of each later
    one, requests a second, requests that run. A load is the requests that are there at any time,
    mean tokens of prompts, those of them that are computed, mean tokens of outputs, and the means
    of the squares of outputs and of prompts."""

def prefix_hits(prompts: Sequence[Sequence[tuple[int, int]]], block: int) -> tuple[int, int]:
    """Full blocks of prompts (contents and tokens) of `block` tokens, and those that an earlier
    prompt has had with the same start."""
