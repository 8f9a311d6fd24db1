"""`armillary serve`: requests on a deployment of a model."""

from __future__ import annotations

import contextlib
import json as json_text
import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Annotated

import typer

from .. import __version__, documents, files
from ..errors import InputError, Problem, flag
from ..units import counted
from . import completion, output
from .options import key_values, settings
from .serve_options import LoadOptions, Recommender, SchedulerOptions, ServeOptions
from .verb_options import takes

if TYPE_CHECKING:
    from ..model.decoder import Decoder
    from ..model.files import Model
    from ..platform import Platform
    from ..serve import Choices, Engines, Layout, Load, Precision, Served
    from ..serve.autoscale import Scaled
    from ..serve.fleet import Fleet
    from ..serve.intervals import Uncertain
    from ..serve.limits import Limits
    from ..serve.scaling import Rule
    from ..serve.what_if import Change

_REQUESTS = 200
"""Requests that are drawn unless the user says how many."""
_INPUT, _OUTPUT, _THINK = "1024", "256", "10"
_MATCHED = 200
"""Requests of a measured run that times are matched to."""

ModelName = Annotated[
    str,
    typer.Argument(
        metavar="MODEL",
        help="Decoder or recommendation model: a preset, a model file or a config.json.",
        autocompletion=completion.workloads,
    ),
]


@takes(ServeOptions)
def serve(model: ModelName, each: ServeOptions) -> None:
    """Serve requests on a deployment: latency, throughput, cost."""
    with output.guard("armillary serve --help"):
        from ..model.files import load_model
        from ..report import serving, serving_scaled, words
        from ..serve import autoscale
        from ..serve.document import Price, as_dict, table
        from ..serve.what_if import ordered
        from ..serve.words import limits

        outputs = {
            "--json": each.json,
            "--csv": each.csv,
            "--report": each.report,
            "--timeline": each.timeline,
        }
        inputs = (each.platform, each.prefill_platform, each.requests, each.calibrate)
        output.claim(outputs, model, *inputs)
        loaded = load_model(model)
        _check_values(each)
        if loaded.family == "dlrm":
            from .serve_queries import serve_queries

            serve_queries(loaded, each, outputs)
            return
        _check_family(loaded, each)
        promised = limits(each.slo)
        if None not in (each.prefill_price, each.prefill) and each.price is None:
            message = "GPUs for tokens have no price"
            raise InputError([Problem("", "--prefill-price", message, "with --price")])
        price = None if each.price is None else Price(each.price, each.prefill_price)
        by = None if each.autoscale is None else _rule(each, each.autoscale)
        fleet, found, warnings = _served(loaded, each)
        for warning in warnings:
            output.log(f"warning: {warning}")
        with output.until_stopped(lambda: True) as stops:
            more = _More([], [])
            _find_more(more, fleet, found, promised, each)
        changes = ordered(more.changes)
        document = as_dict(found, promised, price, warnings, changes, more.within)
        if by is not None:
            document["autoscale"] = autoscale.as_dict(by, more.scaled, promised, each.price)
        whole = {"schema": document.pop("schema"), "version": __version__, "model": model}
        output.write_json(each.json, json_text.dumps({**whole, **document}, indent=2))
        if each.csv is not None:
            from ..report.chart import to_csv

            output.write_csv(each.csv, to_csv(table(found)))
        shown = serving.page(found, model, promised, price, warnings, changes, more.within)
        if by is not None and more.scaled:
            first, *others = shown.sections
            fleets = serving_scaled.section(by, more.scaled, promised, each.price)
            shown = replace(shown, sections=[first, fleets, *others])
        if each.report is not None:
            output.write_page(each.report, shown.html())
        if "-" not in outputs.values():
            words.show(shown, output.console())
        if stops:
            output.interrupted(stops[0], "; what was finished is written")


@dataclass(slots=True)
class _More:
    """Results next to that of the load, as far as they are there after a Ctrl-C."""

    changes: list[Change]
    scaled: list[Scaled]
    within: Uncertain | None = None


def _find_more(
    more: _More, fleet: Fleet, found: Served, promised: Limits, each: ServeOptions
) -> None:
    """Intervals, fleets under a rule, changes that would help."""
    from ..serve import autoscale, scaling
    from ..serve.intervals import uncertain
    from ..serve.what_if import MOST_REQUESTS, changes

    more.within = uncertain(found, promised)
    more.within = uncertain(found, promised, fleet)
    if each.autoscale is not None:
        by = scaling.rule(each.autoscale)
        with output.progress("requests") as update:
            for one in autoscale.autoscaled(fleet, found.load, by, update):
                more.scaled.append(one)
    if not each.no_what_if and len(found.answers) <= MOST_REQUESTS:
        for change in changes(found, promised, each.routing, each.backend):
            more.changes.append(change)


def _check_values(each: ServeOptions) -> None:
    """Refuses numbers that are none, and unknown networks."""
    from .. import backends

    for name in ("gpu_memory", "price", "prefill_price"):
        value = getattr(each, name)
        if value is not None and not math.isfinite(value):
            raise InputError([Problem("", flag(name), f"invalid number: {value}", "a number")])
    for name in ("backend", "network"):
        value = getattr(each, name)
        if value is not None and not backends.is_external(value):
            backends.known(value, flag(name))


def _check_family(loaded: Model, each: ServeOptions) -> None:
    """Decoders take no options of recommendation models, and no other model takes requests."""
    from ..model.files import DECODERS

    if loaded.family not in DECODERS:
        message = f"{loaded.name} is of the family {loaded.family}, which takes no requests"
        raise InputError([Problem("", "MODEL", message, "a decoder or a recommendation model")])
    others = {field.name for field in fields(SchedulerOptions)}
    own = [field for field in fields(Recommender) if field.name not in others]
    given = [each_.name for each_ in own if getattr(each, each_.name) != each_.default]
    if given:
        why = f"is for recommendation models, and {loaded.name} is a decoder"
        raise InputError([Problem("", flag(name), why, "leave it out") for name in given])


def _served(loaded: Model, each: ServeOptions) -> tuple[Fleet, Served, list[str]]:
    """The deployment, the result, and warnings."""
    from ..model.decoder_reader import decoder
    from ..platform import Platform
    from ..serve import autoscale, deploy, load_engine
    from ..serve.engines import changed
    from ..serve.fleet import Fleet
    from ..serve.transfer import transfer
    from ..serve.verdict import queue_grows
    from ..serve.words import pool

    target = Platform.load(each.platform, settings(each.set_, each.npus))
    shape, load = decoder(loaded), _load(each)
    asked = _asked(each, loaded, shape)
    engine = changed(load_engine(asked.engine), _engine_values(each), "--engine-set")
    most = asked.choices.longest
    longest = max(load.longest, most or 0)
    if most is not None and most < load.longest:
        message = f"a request has {load.longest} tokens, more than {most}"
        raise InputError([Problem("", "--max-model-len", message, "longer, or shorter requests")])
    precision, choices = asked.precision, asked.choices
    main = deploy(
        shape, target, engine, asked.layout, precision, count=asked.replicas, longest=longest,
        choices=choices, network=each.network,
    )  # fmt: skip
    warnings = [*target.warnings, *loaded.notes, *load.notes, *asked.notes, *main.warnings]
    _check_apart(each)
    if each.calibrate is not None:
        main, said = _matched(main, each)
        warnings.append(said)
    fleet = Fleet(main, routing=each.routing)
    if each.prefill is not None:
        split, count = pool(each.prefill, "--prefill")
        other = target
        if each.prefill_platform is not None:
            other = _prefill_platform(each.prefill_platform, split.gpus * count)
            warnings += other.warnings
        first = deploy(
            shape, other, engine, split, precision, count=count, longest=longest,
            choices=choices, network=each.network,
        )  # fmt: skip
        warnings += [said for said in first.warnings if said not in warnings]
        _check_room(first, main)
        way = transfer(first, main, each.backend)
        fleet = Fleet(first, main, way, each.routing)
    _check_network(fleet, each)
    with contextlib.ExitStack() as opened, output.progress("requests") as update:
        scratch = None
        if each.timeline is not None:
            scratch = opened.enter_context(files.file(each.timeline))
        found = fleet.serve(load, update, scratch)
    if each.timeline is not None and found.timeline is not None:
        part = found.timeline.part
        output.log(f"timeline written to {each.timeline}{part}; https://ui.perfetto.dev opens it")
    if queue_grows(found):
        warnings.append("the queue grows: latencies depend on the number of requests")
    if each.autoscale is not None:
        warnings.append(autoscale.apart(found))
    return fleet, found, warnings


def _check_apart(each: ServeOptions) -> None:
    for name in ("backend", "prefill_platform", "prefill_price"):
        if getattr(each, name) is not None and each.prefill is None:
            message = "nothing goes from engine to engine"
            raise InputError([Problem("", flag(name), message, "with --prefill, or without it")])


def _rule(each: ServeOptions, text: str) -> Rule:
    """The rule, which says how many engines there are; outputs of one fleet are not those of it."""
    from ..serve import scaling

    found, given = scaling.rule(text), []
    if each.replicas != 1:
        why = "the rule of --autoscale says how many engines there are"
        given.append(Problem("", "--replicas", why, "leave it out: min and max of the rule"))
    for name in ("csv", "timeline"):
        if getattr(each, name) is not None:
            why = "has one fleet of a fixed size, and --autoscale compares several"
            given.append(Problem("", flag(name), why, "without --autoscale, with --replicas N"))
    if given:
        raise InputError(given)
    return found


def _check_network(fleet: Fleet, each: ServeOptions) -> None:
    pools = [fleet.engines, *([fleet.decode] if fleet.decode else [])]
    if each.network is not None and all(one.layout.stage == 1 for one in pools):
        message = "engines without ranks next to each other have no collectives"
        raise InputError([Problem("", "--network", message, "with --tp or --dp, or without it")])


def _matched(engines: Engines, each: ServeOptions) -> tuple[Engines, str]:
    """Engines whose times are those of a measured run of the same deployment, and a note."""
    from ..serve import calibrated
    from ..serve.traces import read_load

    assert each.calibrate is not None
    if each.prefill is not None:
        message = "a run of engines for prompts and tokens apart can't be matched"
        raise InputError([Problem("", "--calibrate", message, "without --prefill")])
    load = read_load(each.calibrate, limit=_MATCHED)
    if load.longest > engines.longest:
        message = f"the measured run has a request of {load.longest} tokens"
        help_ = f"--max-model-len {load.longest} or more"
        raise InputError([Problem(each.calibrate, "", message, help_)])
    found = calibrated(engines, load)
    parts = ", ".join(f"{name} {value:.3g}" for name, value in found.parts.items())
    runs = counted(found.requests, "measured request")
    said = f"times are those of {runs} of {each.calibrate}: {parts}"
    return found.engines, said


@dataclass(frozen=True, slots=True)
class _Asked:
    """The deployment that options or a command line ask for."""

    engine: str
    layout: Layout
    replicas: int
    precision: Precision
    choices: Choices
    notes: tuple[str, ...] = ()


_FROM = ("engine", "tp", "pp", "dp", "ep", "replicas")
"""Options that a command line has itself, next to those of the scheduler."""


def _asked(each: ServeOptions, model: Model, shape: Decoder) -> _Asked:
    """The deployment, from the options or from a command line."""
    from ..serve import Layout
    from ..serve.layout import check_experts, precision

    check_experts(shape, each.experts)
    formats, assumed = precision(model, each.weights, each.experts, each.kv_cache)
    if each.from_ is None:
        layout = Layout(each.tp, each.pp, each.dp, each.ep)
        return _Asked(each.engine, layout, each.replicas, formats, _choices(each), assumed)
    from ..serve.command import read_command, read_command_file
    from ..serve.words import acceptance

    plain = {field.name: field.default for field in fields(ServeOptions)}
    own = {field.name for field in fields(SchedulerOptions)} - {
        field.name for field in fields(LoadOptions)
    }
    names = (*_FROM, *sorted(own - {"acceptance"}))
    given = [name for name in names if getattr(each, name) != plain[name]]
    if given:
        why = "the command line of --from decides it"
        raise InputError([Problem("", flag(name), why, "leave it out") for name in given])
    is_command = len(each.from_.split()) > 1
    command = read_command(each.from_) if is_command else read_command_file(each.from_)
    layout, replicas = command.spread(bool(shape.experts))
    formats = command.precision(formats)
    if command.experts is None and each.experts is not None:
        formats = replace(formats, experts=each.experts)
    drafts = command.choices.drafts
    choices = replace(command.choices, acceptance=acceptance(each.acceptance, drafts))
    idle = tuple(f"{name} changes no time: {why}" for name, why in command.idle.items())
    notes = (*(() if command.weights else assumed), *command.notes, *idle)
    return _Asked(command.engine, layout, replicas, formats, choices, notes)


def _engine_values(each: ServeOptions) -> dict[str, object]:
    """The pairs of `--engine-set`, with values as a file has them."""
    pairs = key_values("--engine-set", each.engine_set, "conservativeness=0.3")
    allowed = "KEY=VALUE, such as conservativeness=0.3"
    return {
        key: documents.parse_yaml(value, f"--engine-set {key}", allowed).value
        for key, value in pairs.items()
    }


def _prefill_platform(name: str, gpus: int) -> Platform:
    """The platform of engines for prompts, which has their GPUs."""
    from ..platform import Platform

    found = Platform.load(name)
    if gpus > found.npus:
        message = f"engines for prompts have {counted(gpus, 'GPU')}, and {name} {found.npus}"
        way = "a larger platform or smaller engines: --npus and --set change that of -p alone"
        raise InputError([Problem("", "--prefill-platform", message, way)])
    return found


def _check_room(first: Engines, main: Engines) -> None:
    from ..serve.deployment import fit

    if not fit(first, main):
        target = main.platform
        gpus = first.gpus + main.gpus
        message = f"the engines have {gpus} GPUs, and {target.name} {target.npus}"
        raise InputError([Problem("", "--prefill", message, "--npus, or smaller engines")])


def _load(each: ServeOptions) -> Load:
    """The load that the options ask for."""
    from ..serve import drawn
    from ..serve.load import counts, lengths, pauses

    if each.rate is not None and not 1e-6 <= each.rate <= 1e9:
        message = f"invalid rate: {each.rate:g}"
        raise InputError([Problem("", "--rate", message, "0.000001 to 1000000000")])
    if each.requests is not None:
        return _recorded(each.requests, each)
    if (each.rate is None) == (each.concurrency is None):
        given = "both are given" if each.rate is not None else "none is given"
        message = f"requests come at a rate or by concurrency, and {given}"
        raise InputError([Problem("", "--rate", message, "--rate 4, or --concurrency 64")])
    if each.concurrency is not None and each.arrival != "poisson":
        message = "requests arrive when others end"
        raise InputError([Problem("", "--arrival", message, "with --rate, or without it")])
    if each.prefixes > 1 and not each.prefix:
        message = "prompts have no common start"
        raise InputError([Problem("", "--prefixes", message, "--prefix TOKENS")])
    if each.think is not None and each.turns is None:
        message = "requests are not turns of conversations"
        raise InputError([Problem("", "--think", message, "with --turns")])
    return drawn(
        each.num_requests or _REQUESTS,
        lengths(each.input_tokens or _INPUT, "--input-tokens"),
        lengths(each.output_tokens or _OUTPUT, "--output-tokens"),
        rate=each.rate,
        arrival=each.arrival,
        concurrency=each.concurrency,
        prefix=each.prefix,
        prefixes=each.prefixes,
        seed=each.seed,
        turns=None if each.turns is None else counts(each.turns, "--turns"),
        think=pauses(each.think or _THINK, "--think"),
    )


def _recorded(path: str, each: ServeOptions) -> Load:
    """The requests of a file."""
    from ..serve.traces import read_load

    plain = {field.name: field.default for field in fields(LoadOptions)}
    drawn_only = (
        "input_tokens", "output_tokens", "arrival", "prefix", "prefixes", "seed", "turns", "think",
    )  # fmt: skip
    given = [name for name in drawn_only if getattr(each, name) != plain[name]]
    if given:
        why = "is for drawn requests, and --requests has recorded ones"
        raise InputError([Problem("", flag(name), why, "leave it out") for name in given])
    return read_load(path, limit=each.num_requests, rate=each.rate, concurrency=each.concurrency)


def _choices(each: ServeOptions) -> Choices:
    """The scheduler that the options ask for."""
    from ..serve import Choices
    from ..serve.words import acceptance

    if each.draft_method != "draft_model" and not each.draft_tokens:
        message = "nothing is drafted"
        raise InputError([Problem("", "--draft-method", message, "with --draft-tokens")])
    return Choices(
        sequences=each.max_num_seqs,
        tokens=each.max_num_batched_tokens,
        longest=each.max_model_len,
        block=each.block_size,
        blocks=each.blocks,
        memory=each.gpu_memory,
        caching=each.prefix_caching,
        chunked=each.chunked_prefill,
        asynchronous=each.overlap,
        drafts=each.draft_tokens,
        drafter=each.draft_method,
        acceptance=acceptance(each.acceptance, each.draft_tokens),
    )
