"""`armillary plan`: the best layout of a language model, or a sharding plan for the embedding
tables of a recommendation model."""

from __future__ import annotations

import json as json_text
import re
from collections.abc import Container
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .. import __version__
from ..errors import InputError, Problem, flag
from ..option_fields import types
from ..platform import Platform
from . import completion, output
from .options import Json, PlatformName, ReportName, Settings, settings
from .verb_options import takes

if TYPE_CHECKING:
    from ..layouts.result import LayoutPlan, Ranked
    from ..plan.choice import Plan
    from ..report.page import Page

SCHEMA = "armillary.plan/1"
LAYOUT_SCHEMA = "armillary.layout-plan/1"
MACHINE_SCHEMA = "armillary.machine-plan/1"

Model = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Preset or model file: a decoder such as llama-3-70b, or a DLRM such as dlrm-neo-a.",
        autocompletion=completion.workloads,
    ),
]
_Precision = Annotated[str | None, typer.Option(metavar="fp32|tf32|fp16|bf16|fp8|int8")]


@dataclass(frozen=True, kw_only=True)
class _Main:
    """Job and machine."""

    platform: PlatformName
    ranks: Annotated[str | None, typer.Option(metavar="N")] = None
    """Ranks; the platform's outermost dimension is resized to them. Default: its NPUs. Of a
    decoder several, such as 256,512 or 256..1024, which doubles."""
    global_batch: Annotated[int | None, typer.Option(metavar="N")] = None
    """Samples of all ranks. Default: of a decoder, 4 M tokens, or 1,024 tokens for each rank if
    that is more; of a DLRM, local batch times ranks."""
    local_batch: Annotated[int | None, typer.Option(metavar="N")] = None
    """Samples of a rank. Default: the model's."""
    capacity: Annotated[str | None, typer.Option(metavar="BYTES")] = None
    """Most memory of a rank, such as 32 GB. Default: memory that surely fits the platform's NPU."""
    out: Annotated[str | None, typer.Option("--output", "-o", metavar="FILE")] = None
    """Write the plan here (.yml or .json); - for standard output."""
    json: Json = None
    report: ReportName = None
    set_: Settings = None


@dataclass(frozen=True, kw_only=True)
class _Layouts(_Main):
    """Layouts of a decoder."""

    layout: Annotated[list[str] | None, typer.Option(metavar="OPTION=VALUES")] = None
    """Values that an option of the layout may take, such as tp=4,8, pp=1..16 or zero=1. May be
    given several times. Default: all that are known to be useful."""
    seq: Annotated[int | None, typer.Option(metavar="N", min=1)] = None
    """Tokens of a sample. Default: the model's."""
    framework: Annotated[str | None, typer.Option(metavar="NAME")] = None
    """Training framework whose behaviour all layouts have, such as megatron-lm. Default:
    Megatron's without the limits of any version."""
    framework_set: Annotated[
        list[str] | None, typer.Option("--framework-set", metavar="KEY=VALUE")
    ] = None
    """Behaviour of the framework of all layouts, such as saved=fused. May be given several
    times."""
    simulations: Annotated[int, typer.Option(metavar="N", min=1)] = 32
    """Most layouts that are simulated to prove the best one. With --serve at most 12."""
    measured: Annotated[str | None, typer.Option(metavar="FILE")] = None
    """Measured steps of this job (YAML or JSON): layouts or launch flags, and seconds or logs.
    Intervals get closer, and layouts are ranked again. With --serve measured deployments (CSV:
    tokens/s/user, tokens/s/GPU), which the page shows next to the frontier."""
    export: Annotated[
        tuple[str, str] | None, typer.Option("--export", metavar="FRAMEWORK FILE")
    ] = None
    """Write launch flags of the best layout: for megatron, torchtitan, nemo, deepspeed or
    maxtext."""


@dataclass(frozen=True, kw_only=True)
class _Machines(_Layouts):
    """Several machines for a decoder: -p A,B and --ranks N,M."""

    objective: Annotated[str | None, typer.Option(metavar="time|cost|memory")] = None
    """The best machine and layout have the shortest step, the most tokens for a dollar, or the
    least memory of the fullest rank. Default: time; with --days cost."""
    price: Annotated[list[str] | None, typer.Option(metavar="PLATFORM=DOLLARS")] = None
    """Dollars of an NPU hour of a platform, such as dgx-h100-16n=2.5. May be given several
    times."""
    tokens: Annotated[str | None, typer.Option(metavar="N")] = None
    """Tokens that are to be trained, such as 300B or 15T: days and dollars of each machine."""
    days: Annotated[float | None, typer.Option(metavar="X")] = None
    """Days in which they have to be trained: slower machines are refused."""


@dataclass(frozen=True, kw_only=True)
class _Serving(_Machines):
    """Serving instead of training: --serve."""

    serve: Annotated[bool, typer.Option("--serve")] = False
    """Find the best deployment for inference, over platforms, engines and layouts."""
    slo: Annotated[str | None, typer.Option(metavar="LIMITS")] = None
    """Service level that 90 % of the requests keep, such as ttft=1s,tpot=30ms."""
    rate: Annotated[float | None, typer.Option(metavar="X")] = None
    """Requests a second that have to be served. Default: the most for each GPU."""
    input_tokens: Annotated[str, typer.Option(metavar="TOKENS")] = "1024"
    """Tokens of a prompt: 1024, 820-1024 or 1024~0.5."""
    output_tokens: Annotated[str, typer.Option(metavar="TOKENS")] = "256"
    """Tokens that are generated, written in the same way."""
    engine: Annotated[str, typer.Option(metavar="NAMES")] = "vllm"
    """Inference engines, separated by commas: vllm, sglang, trtllm, or files."""
    weights: Annotated[str | None, typer.Option(metavar="FORMAT")] = None
    """Number format of the matrices: bf16, fp8, fp8_block, nvfp4, mxfp4, int8 or int4. Default: as
    the model's checkpoint is published."""
    experts: Annotated[str | None, typer.Option(metavar="FORMAT")] = None
    """That of the experts' matrices. Default: as --weights."""
    kv_cache: Annotated[str, typer.Option(metavar="bf16|fp8")] = "bf16"
    """That of keys and values."""


@dataclass(frozen=True, kw_only=True)
class _Tables(_Serving):
    """Tables and their memory."""

    schemes: Annotated[str | None, typer.Option(metavar="NAMES")] = None
    """Ways to shard a table that may be taken, such as table,column. Default: all."""
    ranks_per_node: Annotated[int | None, typer.Option(metavar="N")] = None
    """Ranks of a node. Default: the platform's innermost dimension."""
    near: Annotated[bool, typer.Option("--near")] = False
    """Also take plans that may not fit in memory (fits: near). For decoders, too."""
    cache: Annotated[str | None, typer.Option(metavar="BYTES")] = None
    """Memory of a rank for rows of tables on its host or on disk, such as 20 GB. Tables go there
    if they have no room otherwise."""
    host_capacity: Annotated[str | None, typer.Option(metavar="BYTES")] = None
    """Most memory of a rank on its host, such as 187 GB; more goes to the disk. Default: the
    platform's remote_memory.cpu.capacity, or any."""
    skew: Annotated[float | None, typer.Option(metavar="X")] = None
    """Lookups of row i are in proportion to i^-X. Default: 1.05."""
    optimizer: Annotated[str, typer.Option(metavar="NAME")] = "rowwise_adagrad"
    """Optimizer for the embedding tables: rowwise_adagrad, adagrad or sgd."""
    precision: _Precision = None
    """Numbers of the MLPs: weights and activations. Default: the model's."""
    gradient_precision: _Precision = None
    """Numbers of the gradients that are all-reduced. Default: the model's."""
    table_precision: _Precision = None
    """Numbers in the tables. Default: the model's."""
    messages: Annotated[str | None, typer.Option(metavar="NAME=FORMAT,...")] = None
    """Formats of what is sent, such as forward=fp16,backward=bf16: forward, backward,
    reduce-scatter, all-reduce as fp32, fp16, bf16, int8 or fp8. Default: the model's."""


@dataclass(frozen=True, kw_only=True)
class PlanOptions(_Tables):
    """Costs and simulation."""

    cost: Annotated[str, typer.Option(metavar="platform|volume")] = "platform"
    """Costs that are balanced: seconds by the platform's kernels and simulated collectives, or
    weighted bytes of access and messages."""
    access_weight: Annotated[float, typer.Option(metavar="X")] = 1.0
    """With volume: weight of a byte of access."""
    message_weight: Annotated[float, typer.Option(metavar="X")] = 1.0
    """With volume: weight of a byte sent."""
    simulate: bool = True
    """Simulate a step with the best plans by costs and with simple ones, and take the fastest.
    Without, take the lowest costs."""
    overlap: bool = True
    """Whether computation of the simulated steps goes on while pooled rows and gradients are
    exchanged."""
    bucket_mb: Annotated[float | None, typer.Option(metavar="MB")] = None
    """Gradients of the simulated steps are summed in buckets of at most this size. Default: each
    layer's on their own."""
    backend: Annotated[
        str | None, typer.Option(metavar="NAME", autocompletion=completion.backends)
    ] = None
    """Network of these simulations. Default: the platform's, or analytical if that has packets or
    flits; for decoders analytical."""


@takes(PlanOptions)
def plan(model: Model, each: PlanOptions) -> None:
    """Find the best layout of a decoder or of embedding tables.

    Decoder: searches tensor, pipeline, data, context and expert parallelism, schedules, ZeRO and
    recomputation for the fastest simulated step that fits the memory, and proves by lower bounds
    how far the rest can be ahead. Several platforms and numbers of ranks are searched together.
    DLRM: chooses how embedding tables are sharded over ranks."""
    with output.guard():
        from ..model.files import DECODERS, load_model

        files = {"--output": each.out, "--json": each.json, "--report": each.report}
        files["--export"] = each.export[1] if each.export else None
        output.claim(files, *each.platform.split(","), model, each.measured)
        if each.serve:
            _plan_serving(model, each)
            return
        _refuse(each, _Serving, "needs --serve", types(_Machines))
        if load_model(model).family in DECODERS:
            _plan_layout(model, each)
        else:
            _plan_tables(model, each)


def _plan_tables(model: str, each: PlanOptions) -> None:
    from ..model.sharding_plan_file import as_file
    from ..report import planner

    _refuse(each, _Machines, "is for decoders", types(_Main))
    found = _found(model, each)
    data = {"schema": SCHEMA, "version": __version__, **found.to_dict()}
    # Files first: a reader of standard output may leave.
    if each.out is not None:
        output.write_text(each.out, as_file(found.sharding, each.out), "sharding plan")
    _write(each, data, planner.page(data))


def _plan_layout(model: str, each: PlanOptions) -> None:
    from ..layouts import axes, machine_page, page
    from ..layouts.machine_plan import MachinePlan, SearchInterrupted
    from ..layouts.machines import read_prices, read_ranks
    from ..layouts.run import plan_layouts
    from ..workload.framework_set import pair

    _refuse(each, PlanOptions, "is for embedding tables", _SHARED)
    _known(each.export)
    stop = None
    try:
        with output.progress("planning", clock=False) as update:
            found = plan_layouts(
                model,
                [name.strip() for name in each.platform.split(",")],
                () if each.ranks is None else read_ranks(each.ranks),
                objective=each.objective,
                prices=read_prices(each.price or ()),
                tokens=each.tokens,
                days=each.days,
                settings=settings(each.set_),
                progress=None if update is None else lambda share: update(share, 0.0),
                global_batch=each.global_batch,
                seq=each.seq,
                layout=axes.read(each.layout or (), model),
                framework=each.framework,
                framework_set=dict(map(pair, each.framework_set or ())) or None,
                near=each.near,
                simulations=each.simulations,
                backend=each.backend,
                measured=each.measured or (),
                sensitivity=each.report is not None,
            )
    except SearchInterrupted as stopped:
        found, stop = stopped.found, stopped.stop
    several = isinstance(found, MachinePlan)
    schema = MACHINE_SCHEMA if several else LAYOUT_SCHEMA
    data = {"schema": schema, "version": __version__, **found.to_dict()}
    _write(each, data, machine_page.page(data) if several else page.page(data))
    _export(each.export, model, found.plan if isinstance(found, MachinePlan) else found)
    if stop is not None:
        output.interrupted(stop, "; what was found is written")


def _plan_serving(model: str, each: PlanOptions) -> None:
    """The best deployment for inference."""
    from ..model.decoder_reader import decoder
    from ..model.files import load_model
    from ..report import serving_plan
    from ..serve import load_engine
    from ..serve.layout import check_experts, precision
    from ..serve.load import lengths
    from ..serve.measured_points import read_points
    from ..serve.search import Job, as_dict, search
    from ..serve.words import limits

    taken = {*types(_Serving)} - {*types(_Machines)} | {"platform", "ranks", "json", "report"}
    taken |= {"set_", "price", "simulations", "measured"}
    _refuse(each, PlanOptions, "it means nothing with --serve", taken)
    loaded = load_model(model)
    measured = () if each.measured is None else read_points(each.measured)
    if each.rate is not None and not 1e-6 <= each.rate <= 1e9:
        message = f"invalid rate: {each.rate:g}"
        raise InputError([Problem("", "--rate", message, "0.000001 to 1000000000")])
    shape = decoder(loaded)
    check_experts(shape, each.experts)
    formats, assumed = precision(loaded, each.weights, each.experts, each.kv_cache)
    job = Job(
        shape,
        formats,
        lengths(each.input_tokens, "--input-tokens"),
        lengths(each.output_tokens, "--output-tokens"),
        limits(each.slo),
        each.rate,
    )
    targets = [
        Platform.load(name.strip(), settings(each.set_, _one(each.ranks)))
        for name in each.platform.split(",")
    ]
    engines = [load_engine(name.strip()) for name in each.engine.split(",")]
    with output.progress("deployments", clock=False) as update:
        found = search(
            job,
            targets,
            engines,
            prices=_prices(each, [target.name for target in targets]),
            simulations=min(each.simulations, 12),
            progress=update,
        )
    warnings = [*dict.fromkeys(each for target in targets for each in target.warnings)]
    warnings += (*loaded.notes, *assumed)
    document = as_dict(found, warnings)
    whole = {"schema": document.pop("schema"), "version": __version__, "model": model, **document}
    if measured:
        points = [
            {
                "name": point.name,
                "tokens_per_s_per_user": point.user,
                "output_tokens_per_s_per_gpu": point.gpu,
            }
            for point in measured
        ]
        whole = {**whole, "measured": points}
    _write(each, whole, serving_plan.page(found, model, warnings, measured))
    if found.stop is not None:
        output.interrupted(found.stop, "; what was found is written")


def _prices(each: PlanOptions, names: list[str]) -> dict[str, float] | None:
    """Dollars of a GPU hour of each platform; `None` where none is given."""
    from ..layouts.machines import read_prices

    if not each.price:
        return None
    found = read_prices(each.price)
    unknown = [name for name in found if name not in names]
    if unknown:
        message = f"no platform of this plan: {', '.join(unknown)}"
        raise InputError([Problem("", "--price", message, ", ".join(names))])
    missing = [name for name in names if not found.get(name)]
    if missing:
        message = f"no price of {', '.join(missing)}"
        raise InputError([Problem("", "--price", message, f"--price {missing[0]}=2.5")])
    return found


def _known(export: tuple[str, str] | None) -> None:
    """Refuses an unknown framework before the search."""
    from ..launch import EXPORTS

    if export is not None and export[0] not in EXPORTS:
        said = f"unknown framework {export[0]!r}"
        raise InputError([Problem("", "--export", said, ", ".join(EXPORTS))])


def _export(export: tuple[str, str] | None, model: str, found: LayoutPlan) -> None:
    """Writes launch flags of the best layout. Raises `InputError` if the framework can't express
    it, which names the fastest simulated layout that it can."""
    from ..launch import export as text_of
    from ..layouts.result import words

    if export is None:
        return
    framework, path = export

    def attempt(layout: Ranked) -> str | InputError:
        try:
            return text_of(model, layout.options, framework)
        except InputError as error:
            return error

    text = attempt(found.winner)
    if isinstance(text, str):
        output.write_text(path, text, "launch file")
        return
    others = (each for each in found.best[1:] if isinstance(attempt(each), str))
    other = next(others, None)
    if other is None:
        raise text
    behind = (other.step_ns / found.winner.step_ns - 1) * 100
    said = f"the best layout has no form in {framework}"
    allowed = f"the next layout that has one is {behind:.1f} % slower: {words(other.options)}"
    raise InputError([*text.problems, Problem("plan", "--export", said, allowed)])


def _write(each: PlanOptions, data: dict[str, Any], made: Page) -> None:
    """The result as it was asked for."""
    from ..report import words

    output.write_json(each.json, json_text.dumps(data, indent=2))
    if each.report is not None:
        output.write_page(each.report, made.html())
    if "-" not in (each.out, each.json, each.report, (each.export or ("", ""))[1]):
        words.show(made, output.console())


_OF_TABLES = ("out", "local_batch", "capacity")
"""Options of the job that a decoder has not."""
_SHARED = ({*types(_Machines)} - {*_OF_TABLES}) | {"near", "backend"}
"""Options that a decoder may have, too."""


def _refuse(each: PlanOptions, declared: type, why: str, without: Container[str]) -> None:
    """Refuses options that mean nothing for this model."""
    plain = {field.name: field.default for field in fields(PlanOptions)}
    wrong = [
        name
        for name in types(declared)
        if name not in without and getattr(each, name) != plain[name]
    ]
    if wrong:
        allowed = "leave it out"
        raise InputError([Problem("plan", flag(name), why, allowed) for name in wrong])


def _found(model: str, each: PlanOptions) -> Plan:
    """The plan that the options ask for."""
    from ..plan.run import plan_tables as run

    of_model = _of_model(each)
    target = Platform.load(each.platform, settings(each.set_, _one(each.ranks)))
    with output.progress("planning", clock=False) as update:
        return run(
            model,
            target,
            cost=each.cost,  # type: ignore[arg-type] # checked there
            access_weight=each.access_weight,
            message_weight=each.message_weight,
            capacity=each.capacity,
            ranks_per_node=each.ranks_per_node,
            host_capacity=each.host_capacity,
            near=each.near,
            simulate=each.simulate,
            backend=each.backend,
            schemes=None if each.schemes is None else each.schemes.replace(" ", "").split(","),
            progress=None if update is None else lambda share: update(share, 0.0),
            **of_model,
        )


def _one(ranks: str | None) -> int | None:
    """The only number of ranks. Raises `InputError`."""
    if ranks is None or re.fullmatch(r"[1-9]\d{0,8}", ranks.strip()):
        return None if ranks is None else int(ranks)
    raise InputError([Problem("", "--ranks", f'invalid number: "{ranks}"', "one number")])


def _of_model(each: PlanOptions) -> dict[str, Any]:
    """The options that the model's workload takes, those that were given."""
    given = {
        "local_batch": each.local_batch,
        "global_batch": each.global_batch,
        "precision": each.precision,
        "gradient_precision": each.gradient_precision,
        "table_precision": each.table_precision,
        "messages": each.messages,
        "optimizer": each.optimizer,
        "cache": each.cache,
        "skew": each.skew,
        "overlap": None if each.overlap else False,
        "bucket_mb": each.bucket_mb,
    }
    return {key: value for key, value in given.items() if value is not None}
