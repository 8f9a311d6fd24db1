"""The time of a step of an engine, as tables of its parts.

Each kernel of a layer is timed alone (`armillary.kernels`), over the numbers of tokens, requests
and lengths that a step may have. The simulation reads the tables (`crates/serve/src/timing.rs`).
Not here: what a layer is (`model`), where weights are (`layout.py`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .. import kernels
from ..errors import InputError, Problem
from ..kernels.shapes import (
    Allreduce,
    Attention,
    Combine,
    Dispatch,
    Experts,
    Gemm,
    Mla,
    Shape,
    Stream,
)
from ..model.decoder import Decoder
from ..model.weights import LinearAttention, local_kv, query_width
from ..platform import Platform
from . import rooflines, sparse, stages
from .engines import Engine, EngineFile
from .layout import Layout, Precision

ROWS = (
    1,
    2,
    4,
    8,
    16,
    24,
    32,
    48,
    64,
    96,
    128,
    192,
    256,
    384,
    512,
    768,
    1024,
    1536,
    2048,
    3072,
    4096,
    6144,
    8192,
    12288,
    16384,
    32768,
)
"""Tokens of a step at which tables are sampled."""
SIMULATED = (1, 16, 64, 256, 1024, 4096, 16384)
"""Tokens of a step at which collectives are simulated."""
REQUESTS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
"""Requests of a step."""
BETWEEN = (1, 64, 1024)
"""Tokens of a step at which the way between stages is sampled: latency, then bandwidth."""
LENGTHS = (
    1,
    64,
    128,
    256,
    512,
    1024,
    2048,
    4096,
    8192,
    16384,
    32768,
    65536,
    131072,
    262144,
    524288,
    1048576,
)
"""Contexts."""
PROMPTS = tuple(sorted({round(2 ** (step / 8)) for step in range(161)}))
"""Lengths of prompts: attention grows with their square."""


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a step, sampled. `kind` says what it depends on, as `Table` in
    `crates/serve/src/timing.rs`; `seconds` are row by row where there are columns."""

    name: str
    kind: str
    at: tuple[float, ...]
    seconds: tuple[float, ...]
    columns: tuple[float, ...] = ()
    window: int = 0
    host: bool = False
    place: str = "stages"
    """Where it is in a pipeline: on all `stages`, `once`, or `between` two of them."""

    def row(self) -> dict[str, Any]:
        """As `_core.serve` takes it."""
        return {
            "name": self.name, "kind": self.kind, "at": list(self.at),
            "columns": list(self.columns), "seconds": list(self.seconds), "window": self.window,
            "host": self.host, "place": self.place,
        }  # fmt: skip


def overheads(file: EngineFile, layers: int) -> list[Term]:
    """Parts that an engine adds to its kernels, on a stage of `layers` layers."""
    found = []
    if file.layer:
        per_step = layers * file.layer / 1e6
        found.append(Term("layers", "sequences", (0.0, 1.0), (per_step, per_step)))
    if file.request:
        each = file.request / 1e6
        found.append(Term("requests", "sequences", (0.0, 1.0), (0.0, each), place="once"))
    host = file.step / 1e3
    found.append(Term("host", "sequences", (0.0, 1.0), (host, host), host=True, place="once"))
    return found


class Iteration:
    """Parts of the steps of an engine."""

    def __init__(
        self,
        model: Decoder,
        layout: Layout,
        precision: Precision,
        engine: Engine,
        platform: Platform,
        *,
        tokens: int,
        sequences: int,
        longest: int,
        network: str | None = None,
    ) -> None:
        self.model, self.layout, self.precision = model, layout, precision
        self.engine, self.platform = engine, platform
        self.tokens, self.sequences, self.longest = tokens, sequences, longest
        self.network = network
        """Network on which collectives are simulated, instead of measured ones."""
        self.warnings: list[str] = []
        if network is not None:
            self.warnings.append(
                "simulated collectives are those of a communication library: an engine's own "
                "all-reduces are faster for few tokens"
            )
        self.generation = kernels.origin(platform)[1]
        if self.generation is None:
            self.warnings.append(
                f"no kernels of {platform.name} were measured: their times are rooflines"
            )

    def terms(self) -> list[Term]:
        """Kernels and collectives. Most times are those of a stage of the pipeline."""
        found = [
            self._rows("linear", self._linear),
            self._rows("elementwise", self._elementwise),
            *self._attention(),
        ]
        if self.model.experts:
            found.append(self.experts())
            if self.layout.dp > 1:
                found.append(self._exchange())
        if self.layout.tp > 1:
            found.append(self._allreduce())
        if self.model.linear_key_heads:
            found.append(self._states())
        found.append(self._head())
        if self.layout.pp > 1:
            found.append(self._between())
        return found

    @property
    def layers(self) -> int:
        """Layers of the fullest stage."""
        return -(-self.model.layers // self.layout.pp)

    def _kinds(self) -> Iterable[tuple[int, float]]:
        """A layer of each kind, and how many are like it on a stage."""
        for layer, count in self.model.kinds():
            yield layer, count * self.layers / self.model.layers

    def _points(self, samples: Iterable[int], most: int) -> tuple[int, ...]:
        below = [sample for sample in samples if sample < most]
        return (*below, most)

    def _rows(self, name: str, shapes: Callable[[int], list[tuple[float, Shape]]]) -> Term:
        """A part by the tokens of a rank."""
        at = self._points(ROWS, self.tokens)
        return Term(name, "rows", tuple(map(float, at)), tuple(self._sums([shapes(m) for m in at])))

    def _sums(self, groups: list[list[tuple[float, Shape]]]) -> list[float]:
        """Seconds of each group of kernels with their numbers."""
        flat = [shape for group in groups for _, shape in group]
        if self.generation is None:
            times = iter(rooflines.seconds(flat, self.platform))
        else:
            found = kernels.seconds(flat, self.platform) if flat else []
            pairs = zip(found, flat, strict=True)
            times = iter([time - self._hidden(shape) for time, shape in pairs])
        return [sum(count * next(times) for count, _ in group) for group in groups]

    def _hidden(self, shape: Shape) -> float:
        """Seconds of a kernel that do not count in its engine: the conversion of the activations of
        a product, which is left to the kernel before it, and launches of experts' kernels."""
        file = self.engine.file
        if isinstance(shape, Gemm) and shape.format in file.kernels.fused:
            return kernels.one(shape, self.platform).parts.get("before", 0.0)
        if isinstance(shape, Experts):
            launch = kernels.one(shape, self.platform).parts.get("launch", 0.0)
            return (1.0 - file.experts_launch) * launch
        return 0.0

    def _gemm(self, m: int, n: int, k: int, weights: str) -> Shape:
        named = self.engine.file.kernels
        library = named.gemm_blocks or named.gemm if weights == "fp8_block" else named.gemm
        if weights in ("int4", "int8", "mxfp4"):
            narrow = "int4" if weights == "mxfp4" else weights
            return Gemm(m=m, n=n, k=k, format="bf16", weights=narrow, library=library)
        return Gemm(m=m, n=n, k=k, format=weights, library=library)

    def _linear(self, m: int) -> list[tuple[float, Shape]]:
        """Products of attention and dense layers, and routers."""
        model, tp, narrow = self.model, self.layout.tp, self.precision.weights
        attention = self.precision.attention or narrow
        found: list[tuple[float, Shape]] = []
        for layer, count in self._kinds():
            of = model.of(layer)
            heads = of.heads // tp
            if of.linear_key_heads:
                linear = LinearAttention.of(of, tp)
                sizes = [
                    (linear.mixed + linear.values + 2 * linear.heads, of.hidden),
                    (of.hidden, linear.values),
                ]
            elif of.kv_rank:
                plain = of.key_width - of.rope_dim
                query = heads * of.key_width
                down = of.kv_rank + of.rope_dim + of.q_rank
                sizes = [(down, of.hidden), (query, of.q_rank or of.hidden)]
                sizes += [(heads * of.kv_rank, plain), (heads * of.value_width, of.kv_rank)]
                sizes.append((of.hidden, heads * of.value_width))
                if of.index_heads:
                    sizes += [(of.index_heads * of.index_dim, of.q_rank), (of.index_dim, of.hidden)]
                    found.append((count, self._gemm(m, of.index_heads, of.hidden, "bf16")))
            else:
                width = heads * query_width(of) + local_kv(of, tp) * (of.key_width + of.value_width)
                sizes = [(width, of.hidden), (of.hidden, heads * of.value_width)]
            found += [(count, self._gemm(m, n, k, attention)) for n, k in sizes]
            ffn, sizes = model.ffn, []
            if model.has_experts(layer):
                ffn = model.shared_experts * model.expert_ffn
                found.append((count, self._gemm(m, model.experts, model.hidden, "bf16")))
            if ffn:
                inner = -(-ffn // tp)
                sizes += [((2 if model.gated else 1) * inner, model.hidden), (model.hidden, inner)]
            found += [(count, self._gemm(m, n, k, narrow)) for n, k in sizes]
        return found

    def _elementwise(self, m: int) -> list[tuple[float, Shape]]:
        """Norms, rotary embeddings with the cache's new entries, gates."""
        model, tp = self.model, self.layout.tp
        found: list[tuple[float, Shape]] = []
        for layer, count in self._kinds():
            of = model.of(layer)
            width = of.heads // tp * query_width(of) + 2 * local_kv(of, tp) * of.key_width
            experts = model.has_experts(layer)
            inner = (model.shared_experts * model.expert_ffn if experts else model.ffn) // tp
            found.append((2 * count, Stream(bytes=max(1, m * 8 * model.hidden))))
            found.append((count, Stream(bytes=max(1, m * 4 * width))))
            if inner:
                found.append((count, Stream(bytes=max(1, m * 6 * inner))))
        return found

    def _attention(self) -> list[Term]:
        """Decode and prefill of each kind of layer that keeps keys and values."""
        found = []
        for layer, count in self._kinds():
            of = self.model.of(layer)
            if not of.linear_key_heads:
                found += self._attention_of(of, count)
        return found

    def _attention_of(self, of: Decoder, count: float) -> list[Term]:
        """Those of `count` layers that are alike."""
        most = of.index_top_k or of.window
        suffix = f" (window {of.window})" if of.window else ""
        shape = self._attention_shape(of)
        decode = self._decode(
            "decode attention" + suffix, most, lambda b, c: (count, shape("decode", b, c))
        )
        prefill = self._prefill(
            "prefill attention" + suffix, of.index_top_k, lambda c: (count, shape("prefill", 1, c))
        )
        return [*(self._indexer(of, count) if of.index_heads else ()), decode, prefill]

    def _decode(
        self, name: str, most: int, kernel: Callable[[int, int], tuple[float, Shape]]
    ) -> Term:
        """A part by requests and their contexts, at most `most` tokens of each; 0 for all."""
        requests = self._points(REQUESTS, self.sequences)
        lengths = self._points(LENGTHS, min(self.longest, most) if most else self.longest)
        grid = [[kernel(b, c)] for b in requests for c in lengths]
        return Term(
            name, "decode", (0.0, *map(float, requests)),
            (*(0.0 for _ in lengths), *self._sums(grid)), tuple(map(float, lengths)), most,
        )  # fmt: skip

    def _prefill(self, name: str, most: int, kernel: Callable[[int], tuple[float, Shape]]) -> Term:
        """A part by the length of a prompt, whose tokens attend to `most` keys; 0 for all."""
        prompts = self._points(PROMPTS, self.longest)

        def seconds(lengths: Sequence[int]) -> list[float]:
            return self._sums([[kernel(c)] for c in lengths])

        found = sparse.prompts(prompts, most, seconds) if most else seconds(prompts)
        return Term(name, "prefill", (0.0, *map(float, prompts)), (0.0, *found))

    def _indexer(self, of: Decoder, count: float) -> list[Term]:
        """The choice of keys in sparse attention, whole on every rank."""
        if sparse.WARNING not in self.warnings:
            self.warnings.append(sparse.WARNING)
        library = self._library("attention", self.engine.file.kernels.attention)
        return [
            self._decode("indexer, decode", 0, lambda b, c: (count, sparse.looked_up(of, b, c))),
            self._prefill(
                "indexer, prefill", 0,
                lambda c: (count, sparse.scored(of, c, library, self.engine.name)),
            ),
        ]  # fmt: skip

    def _attention_shape(self, of: Decoder) -> Callable[[str, int, int], Shape]:
        named = self.engine.file.kernels
        tp, cache = self.layout.tp, self.precision.cache
        if of.kv_rank:
            source = self._library("mla", named.mla)
            form = "absorbed" if of.index_heads else "expanded"
            base = Mla(
                batch=1, length=1, heads=of.heads // tp, cache=cache, source=source, form=form,
                engine=named.mla_engine or self.engine.name,
            )  # fmt: skip
            return lambda phase, batch, length: replace(
                base, phase=phase, batch=batch, length=length
            )
        source = self._library("attention", named.attention)
        shape = Attention(
            batch=1, length=1, heads=of.heads // tp, kv_heads=local_kv(of, tp),
            head_dim=of.key_width, window=of.window, cache=cache, source=source,
            engine=self.engine.name,
        )  # fmt: skip
        return lambda phase, batch, length: replace(shape, phase=phase, batch=batch, length=length)

    def _library(self, kind: str, known: Mapping[str, str]) -> str:
        if self.generation is None:
            return next(iter(known.values()))
        if self.generation not in known:
            message = f"{self.engine.name} has no {kind} for {self.generation}"
            raise InputError([Problem("", "engine", message, ", ".join(known))])
        return known[self.generation]

    def experts(self) -> Term:
        """Products of the experts. Tokens of all ranks with attention of their own meet here."""
        model, layout = self.model, self.layout
        count = sum(many for layer, many in self._kinds() if model.has_experts(layer))
        at = self._points(ROWS, self.tokens * layout.dp)
        made = None
        for words in self._expert_kernels():
            shape = Experts(
                tokens=1, hidden=model.hidden, inner=model.expert_ffn, experts=model.experts,
                top_k=model.top_k, tp=layout.expert_tp, ep=layout.ep,
                matrices=3 if model.gated else 2, library=self.engine.file.kernels.experts,
                routing="power_law_1.2", **words,
            )  # fmt: skip
            groups: list[list[tuple[float, Shape]]] = [
                [(count, replace(shape, tokens=m))] for m in at
            ]
            try:
                made = self._sums(groups)
                break
            except InputError as error:
                refused = error
        if made is None:
            raise refused
        return Term("experts", "all_rows", tuple(map(float, at)), tuple(made))

    def _expert_kernels(self) -> list[dict[str, str]]:
        form = self.precision.experts
        new = self.generation == "blackwell"
        chosen = self.engine.file.kernels.experts_of.get(f"{form}_{self.generation}")
        if chosen:
            return [{"kernels": chosen, "format": form}]
        libraries = {
            "bf16": ["cutlass", "triton"] if self.engine.name == "trtllm" else ["triton"],
            "fp8": ["cutlass", "flashinfer", "triton"],
            "fp8_block": ["generated", "cutlass", "triton"] if new else ["cutlass", "triton"],
            "nvfp4": ["generated", "cutlass", "flashinfer", "triton"],
            "mxfp4": ["generated", "triton_kernels", "marlin", "widened", "triton"],
            "int4": ["marlin", "triton"],
        }.get(form, ["triton"])
        forms = {"mxfp4": ["mxfp4_mxfp8", "mxfp4"] if new else ["mxfp4"], "int8": ["fp8"]}
        return [
            {"kernels": library, "format": each}
            for library in libraries
            for each in forms.get(form, [form])
        ]

    def _exchange(self) -> Term:
        """Tokens to the ranks of their experts and back."""
        if self.network is not None:
            if self.layout.ep == 1 or self.engine.file.kernels.exchange == ("gather",):
                count = sum(many for at, many in self._kinds() if self.model.has_experts(at))
                layout = self.layout
                return self._simulated("exchange of tokens", count, layout.stage, layout.dp)
            self.warnings.append(
                "exchanges of tokens have the times of measured kernels, not of the network"
            )
        at = self._points(ROWS, self.tokens)
        return Term(
            "exchange of tokens", "rows", tuple(map(float, at)), tuple(map(self._exchanged, at))
        )

    def _exchanged(self, tokens: int) -> float:
        """Seconds of the fastest library for `tokens` tokens of each rank. Ranks that cut every
        expert need all tokens."""
        model, layout = self.model, self.layout
        count = sum(many for layer, many in self._kinds() if model.has_experts(layer))
        backends = self.engine.file.kernels.exchange if layout.ep > 1 else ("gather",)
        times = []
        for backend in backends:
            if backend == "gather":
                shapes: list[Shape] = [
                    Allreduce(
                        bytes=2 * tokens * layout.dp * model.hidden, members=layout.stage,
                        library=self.engine.file.kernels.allreduce,
                    )
                ]  # fmt: skip
            else:
                words: dict[str, Any] = {
                    "tokens": tokens, "hidden": model.hidden, "experts": model.experts,
                    "top_k": model.top_k, "ep": layout.stage, "backend": backend,
                }  # fmt: skip
                shapes = [Dispatch(**words), Combine(**words)]
            try:
                times.append(self._sums([[(count, shape) for shape in shapes]])[0])
            except InputError as error:
                refused = error
        if not times:
            raise refused
        return min(times)

    def _allreduce(self) -> Term:
        """Sums over the ranks of tensor parallelism: two in each layer, one with experts apart."""
        model, layout = self.model, self.layout
        apart = layout.dp > 1
        count = sum(
            many * (1 if apart and model.has_experts(layer) else 2) for layer, many in self._kinds()
        )
        library = self.engine.file.kernels.allreduce
        if self.network is not None:
            return self._simulated("all-reduce", count, layout.tp)
        return self._rows(
            "all-reduce",
            lambda m: [
                (count, Allreduce(bytes=2 * m * model.hidden, members=layout.tp, library=library))
            ],
        )

    def _simulated(self, name: str, count: float, members: int, factor: int = 1) -> Term:
        """All-reduces of `factor` times the tokens of a step on the chosen network. Their time
        grows nearly evenly with the tokens, so fewer numbers of them are simulated."""
        at = self._points(SIMULATED, self.tokens)
        library = self.engine.file.kernels.allreduce
        size = 2 * factor * self.model.hidden
        shapes = [Allreduce(bytes=m * size, members=members, library=library) for m in at]
        times = rooflines.all_reduces(shapes, self.platform, self.network)
        return Term(name, "rows", tuple(map(float, at)), tuple(count * time for time in times))

    def _states(self) -> Term:
        """Linear attention: the state of each request is read, changed and written."""
        found = []
        at = self._points(REQUESTS, self.sequences)
        for requests in at:
            group: list[tuple[float, Shape]] = []
            for layer, count in self._kinds():
                of = self.model.of(layer)
                if of.linear_key_heads:
                    linear = LinearAttention.of(of, self.layout.tp)
                    group.append((count, Stream(bytes=requests * 8 * linear.heads * linear.state)))
            found.append(group)
        return Term("states", "sequences", tuple(map(float, at)), tuple(self._sums(found)))

    def _head(self) -> Term:
        """Logits of the next token of each request, and its choice."""
        model, tp = self.model, self.layout.tp
        vocabulary = -(-model.vocabulary // tp)
        at = self._points(REQUESTS, self.sequences)
        groups: list[list[tuple[float, Shape]]] = [
            [
                (1.0, self._gemm(m, vocabulary, model.hidden, "bf16")),
                (2.0, Stream(bytes=4 * m * model.vocabulary)),
            ]
            for m in at
        ]
        return Term(
            "head", "sampled", (0.0, *map(float, at)), (0.0, *self._sums(groups)), place="once"
        )

    def _between(self) -> Term:
        """Activations on the way from stage to stage."""
        at = self._points(BETWEEN, self.tokens)
        found = stages.between(self.platform, self.layout, self.model.hidden, at)
        return Term("activations", "rows", tuple(map(float, at)), tuple(found), place="between")
