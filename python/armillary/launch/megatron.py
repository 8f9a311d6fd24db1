"""Jobs of Megatron-LM: launch scripts, lines of flags, and `MODEL_ARGS` of its functional tests.

Here: the layout. Not here: the model (`megatron_model.py`), flags that change no time
(`megatron_flags.py`), scripts as text (`shell.py`), the way back (`megatron_export.py`). Ranks are
those of torchrun (`--nproc-per-node` x `--nnodes`), or are given. Replicas follow as ranks over
tp x cp x pp. Source: NVIDIA/Megatron-LM, megatron/training/arguments.py at commit 000c4ac2;
megatron-core 0.16.1."""

from __future__ import annotations

from collections.abc import Mapping

from .. import documents
from ..documents import Path_
from ..errors import InputError, Problem
from ..model.decoder import Decoder
from ..model.decoder_reader import decoder
from ..model.files import Model
from ..workload.parallelism import Parallelism
from ..workload.parallelism_reader import in_range
from ..workload.placement import LayoutFault, layout_of, read_layout, written_out
from . import megatron_flags as tables
from .given import Given, Said
from .launched import Launched
from .megatron_model import read_model
from .shell import Word, read_script

FRAMEWORK = "megatron-lm"
ARGS = "MODEL_ARGS"
_FLAG = "--"
_TYPICAL = ("--num-layers", "--micro-batch-size", "--tensor-model-parallel-size", "--hidden-size")
"""Flags that a command that trains has one of at least."""
_LAUNCHER = ("--nproc-per-node", "--nproc_per_node", "--nnodes")
_STRATEGIES = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
_RECIPES = {
    "delayed": "delayed", "tensorwise": "tensorwise", "blockwise": "blockwise",
    "mxfp8": "blockwise",
}  # fmt: skip
_EXCHANGES = {"p2p": "p2p", "a2a": "a2a", "allgather": "all_gather", "all_gather": "all_gather"}
_MODULES = ("core_attn", "moe_act", "layernorm", "mla_up_proj", "mlp", "moe", "shared_experts")


def is_megatron(text: str) -> bool:
    """Whether a text has flags of Megatron-LM."""
    return any(flag in text for flag in _TYPICAL)


def read_megatron(text: str, file: str, base: Model | None, ranks: int | None) -> Launched:
    """The job that a script, a list of flags or `MODEL_ARGS` starts. Raises `InputError` with every
    problem."""
    given = _of_yaml(text, file) if f"{ARGS}:" in text else _of_script(text, file)
    return job_of("megatron-args", given, base, ranks)


def job_of(format_: str, given: Given, base: Model | None, ranks: int | None) -> Launched:
    """The job of flags of Megatron-LM. Raises `InputError` with every problem."""
    tp = given.count("--tensor-model-parallel-size") or 1
    model = read_model(given, base, tp)
    options: dict[str, object] = {"framework": FRAMEWORK, "tp": tp}
    _degrees(given, options, ranks)
    _batch(given, options)
    _precision(given, options)
    _sharding(given, options)
    _overlaps(given, options)
    shape = decoder(model) if model is not None else None
    _stages(given, options, None if shape is None else shape.layers)
    _recompute(given, options, shape)
    _mixture(given, options)
    given.warn(tables.flags(tables.UNMODELED))
    given.refuse(tables.flags(tables.REFUSED), "a job without it")
    idle = given.finish(tables.reasons(tables.IDLE), tables.reasons(tables.IDLE_SWITCHES))
    assert model is not None
    return Launched(format_, model, options, tuple(given.notes), idle)


def _of_yaml(text: str, file: str) -> Given:
    """Flags under `MODEL_ARGS`, as Megatron's functional tests have them."""
    document = documents.parse_yaml(text, file, "`key: value` lines")
    values = document.value
    arguments = values.get(ARGS) if isinstance(values, dict) else None
    if not isinstance(arguments, dict):
        raise InputError([Problem(file, ARGS, "is not a mapping", "flags and their values")])
    for twice, line in document.repeated:
        raise InputError([Problem(file, f"line {line}", f"{twice[-1]} is given twice", "once")])
    keys = {}
    for key, value in arguments.items():
        path: Path_ = (ARGS, key)
        keys[str(key)] = _said(value, documents.place(path, document.lines).partition(":")[0])
    return Given(file, keys)


def _said(value: object, place: str) -> Said:
    """A value of YAML as a flag has it."""
    if isinstance(value, list):
        return Said([str(each) for each in value], place)
    if value is None or isinstance(value, bool):
        return Said(value, place)
    text = str(value)
    return Said(text, place, (text,) if "$" in text else ())


def _of_script(text: str, file: str) -> Given:
    """Flags of the one command that trains."""
    script = read_script(text, file)
    bare = [each for each in script.commands if each[0].text.startswith(_FLAG)]
    trains = [each for each in script.commands if _is_training(each) and each not in bare]
    if any(map(_is_training, bare)) and not trains:
        trains = [[word for each in bare for word in each]]
    if len(trains) != 1:
        lines = ", ".join(str(each[0].line) for each in trains[:5])
        said = f"has several commands with its flags: lines {lines}" if trains else "has no command"
        allowed = f"one command with {_TYPICAL[0]} or {_TYPICAL[1]}"
        raise InputError([Problem(file, "", said, allowed)])
    given = Given(file, _keys(trains[0], file))
    given.notes |= dict.fromkeys(script.notes)
    return given


def _is_training(words: list[Word]) -> bool:
    return any(word.text.partition("=")[0] in _TYPICAL for word in words)


def _keys(words: list[Word], file: str) -> dict[str, Said]:
    """Flags and their values, those of the launcher among them; the last of a repeated flag
    counts."""
    keys: dict[str, Said] = {}
    flag, where = "", words[0]
    values: list[Word] = []
    program = next((at for at, word in enumerate(words) if word.text.endswith(".py")), 0)
    for at, word in enumerate(words):
        if word.text.startswith(_FLAG):
            _keep(keys, flag, values, where)
            flag, sign, value = word.text.partition("=")
            where, values = word, []
            if sign:
                values = [Word(value, word.line, word.unknown, word.assumed)]
            if at < program and flag not in _LAUNCHER:
                flag = ""
        elif flag and at != program:
            values.append(word)
        elif at > program and not word.text and word.unknown:
            said = f"words that the file does not say: {', '.join(word.unknown)}"
            raise InputError([Problem(file, f"line {word.line}", said, "plain flags")])
        elif at == program:
            _keep(keys, flag, values, where)
            flag = ""
    _keep(keys, flag, values, where)
    return keys


def _keep(keys: dict[str, Said], flag: str, values: list[Word], where: Word) -> None:
    if not flag:
        return
    unknown = tuple(each for word in values for each in word.unknown)
    if not values:
        unknown = where.unknown
    assumed = tuple(each for word in values for each in word.assumed)
    texts: list[str] = [word.text.strip("\"'") for word in values]
    value = None if not texts else texts[0] if len(texts) == 1 else texts
    keys[flag] = Said(value, f"line {where.line}", unknown, assumed)


def _degrees(given: Given, options: dict[str, object], ranks: int | None) -> None:
    tp = given.count("--tensor-model-parallel-size") or 1
    cp = given.count("--context-parallel-size") or 1
    pp = given.count("--pipeline-model-parallel-size") or 1
    options |= {"pp": pp, "cp": cp}
    asked = bool(given.switch("--sequence-parallel"))
    if asked and tp == 1:
        given.note("--sequence-parallel has no effect with tp 1, as in Megatron")
    options["sp"] = asked and tp > 1
    kinds = given.words("--cp-comm-type")
    if kinds is not None and cp > 1:
        if len(set(kinds)) > 1 or kinds[0] not in _EXCHANGES:
            said = f"has the value {' '.join(kinds)[:60]}"
            given.fault("--cp-comm-type", said, ", ".join(_EXCHANGES))
        options["cp_comm_type"] = _EXCHANGES.get(kinds[0])
    elif cp > 1:
        options["cp_comm_type"] = "p2p"
    each = given.count(_LAUNCHER[0]) or given.count(_LAUNCHER[1])
    world = given.world(each, given.count(_LAUNCHER[2]), ranks)
    unit = tp * cp * pp
    if world is not None and world % unit:
        said = f"{world} ranks are not a multiple of tp {tp} x cp {cp} x pp {pp} = {unit}"
        given.problems.append(Problem(given.file, "ranks", said, f"a multiple of {unit}"))
    elif world is not None:
        options["dp"] = world // unit


def _batch(given: Given, options: dict[str, object]) -> None:
    micro = _required(given, "--micro-batch-size", "samples of a micro-batch")
    whole, dp = given.count("--global-batch-size"), options.get("dp")
    if whole is None and micro is not None and isinstance(dp, int):
        whole = micro * dp
        given.note(f"--global-batch-size is taken as {whole}, one micro-batch of each replica")
    seq = _required(given, "--seq-length", "tokens of a sample")
    options |= {"micro_batch": micro, "global_batch": whole, "seq": seq}


def _required(given: Given, key: str, what: str) -> int | None:
    if not given.has(key):
        given.fault(key, "is missing", what)
    return given.count(key)


def _precision(given: Given, options: dict[str, object]) -> None:
    half, brain = bool(given.switch("--fp16")), bool(given.switch("--bf16"))
    plain = "fp16" if half else "bf16" if brain else "fp32"
    eight = given.word("--fp8-format", ("e4m3", "hybrid"))
    four = given.word("--fp4-format", ("e2m1",))
    recipe = given.word("--fp8-recipe", tuple(_RECIPES))
    options["precision"] = "nvfp4" if four else "fp8" if eight else plain
    if eight:
        options["fp8_recipe"] = _RECIPES[recipe or "delayed"]
        if recipe == "mxfp8":
            given.note("--fp8-recipe mxfp8: scales for 32 elements are taken as blockwise ones")
        if plain != "bf16":
            given.fault("--fp8-format", f"given with {plain}", "with --bf16")
        options["fp8_param_gather"] = bool(given.switch("--fp8-param-gather"))
    given.asked.add("--fp8-param-gather")
    narrow = bool(given.switch("--grad-reduce-in-bf16"))
    wide = bool(given.switch("--accumulate-allreduce-grads-in-fp32"))
    options["fp32_gradients"] = not narrow if brain else wide
    backend = given.word("--attention-backend", ("auto", "flash", "fused", "unfused", "local"))
    given.switch("--use-flash-attn")
    options["attention"] = "unfused" if backend in ("unfused", "local") else "flash"


def _sharding(given: Given, options: dict[str, object]) -> None:
    own = bool(given.switch("--use-megatron-fsdp")) or bool(given.switch("--use-custom-fsdp"))
    torch = bool(given.switch("--use-torch-fsdp2"))
    strategy = given.word("--data-parallel-sharding-strategy", tuple(_STRATEGIES))
    optimizer = bool(given.switch("--use-distributed-optimizer"))
    keeps = bool(given.switch("--torch-fsdp2-no-reshard-after-forward"))
    zero = 1 if optimizer else 0
    if own:
        zero = _STRATEGIES[strategy or "no_shard"]
    elif torch:
        zero = 2 if keeps else 3
    options["zero"] = zero
    copies = given.count("--num-distributed-optimizer-instances") or 1
    dp, cp = options.get("dp"), options.get("cp")
    if copies > 1 and isinstance(dp, int) and isinstance(cp, int):
        if dp * cp % copies:
            said = f"{copies} do not divide dp x cp = {dp * cp}"
            given.fault("--num-distributed-optimizer-instances", said, "a divisor")
        options["zero_group"] = max(1, dp * cp // copies)
    if given.switch("--optimizer-cpu-offload"):
        options["offload"] = "optimizer"
    _moments(given, options)
    name = given.word("--optimizer", ("adam", "sgd", "muon", "dist_muon"))
    if name not in (None, "adam"):
        given.fault("--optimizer", f"is {name}", "adam")


def _moments(given: Given, options: dict[str, object]) -> None:
    aware = bool(given.switch("--use-precision-aware-optimizer"))
    kinds = [
        given.word(key, ("fp32", "fp16", "bf16", "fp8")) or "fp32"
        for key in ("--exp-avg-dtype", "--exp-avg-sq-dtype")
    ]
    if not aware or kinds == ["fp32", "fp32"]:
        return
    if kinds in (["bf16", "bf16"], ["fp16", "fp16"]):
        options["moments"] = "bf16"
        return
    said = f"moments of {kinds[0]} and {kinds[1]}"
    given.fault("--exp-avg-dtype", said, "fp32 or bf16 for both")


def _overlaps(given: Given, options: dict[str, object]) -> None:
    chosen: dict[str, object] = {
        "overlap_grad_reduce": bool(given.switch("--overlap-grad-reduce")),
    }
    gathers = bool(given.switch("--overlap-param-gather"))
    if options["zero"] in (1, 2):
        chosen["overlap_param_gather"] = gathers
    pieces = bool(given.switch("--tp-comm-overlap"))
    if options["tp"] != 1:
        chosen["overlap_tp"] = pieces
    options["framework_set"] = chosen
    if given.switch("--overlap-moe-expert-parallel-comm"):
        options["overlap_passes"] = True


def _stages(given: Given, options: dict[str, object], layers: int | None) -> None:
    pp = options["pp"]
    assert isinstance(pp, int)
    modules = given.count("--mtp-num-layers", least=0)
    if modules:
        options["mtp"] = modules
    layout = given.text("--pipeline-model-parallel-layout")
    each = given.count("--num-layers-per-virtual-pipeline-stage")
    chunks = given.count("--num-virtual-stages-per-pipeline-rank")
    first = given.count("--decoder-first-pipeline-num-layers")
    last = given.count("--decoder-last-pipeline-num-layers")
    ends = [
        bool(given.switch(f"--account-for-{end}-in-pipeline-split"))
        for end in ("embedding", "loss")
    ]
    if layout is not None:
        _laid_out(given, options, layout, pp, layers)
        return
    if layers is None or pp == 1:
        return
    counted = layers + sum(ends)
    if each:
        if counted % (pp * each):
            said = f"{counted} layers in {pp} stages of parts of {each}"
            given.fault("--num-layers-per-virtual-pipeline-stage", said, "a divisor")
            return
        chunks = counted // pp // each
    options["virtual_stages"] = chunks or 1
    _uneven(given, options, layers, (first, last), ends)


def _laid_out(
    given: Given, options: dict[str, object], layout: str, pp: int, layers: int | None
) -> None:
    key, mtp = "--pipeline-model-parallel-layout", options.get("mtp", 0)
    assert isinstance(mtp, int)
    try:
        parts = written_out(layout).count("|") + 1
        if layers is not None:
            read_layout(layout, layers, parts, mtp)
    except LayoutFault as fault:
        given.fault(key, fault.message, fault.allowed)
        return
    if parts % pp:
        given.fault(key, f"{parts} parts for {pp} stages", f"a multiple of {pp}")
    options |= {"virtual_stages": max(1, parts // pp), "layers_per_stage": layout}


def _uneven(
    given: Given,
    options: dict[str, object],
    layers: int,
    fixed: tuple[int | None, int | None],
    ends: list[bool],
) -> None:
    """Layers of each part where the first or last part has fewer or more than others."""
    pp, chunks = options["pp"], options["virtual_stages"]
    assert isinstance(pp, int)
    assert isinstance(chunks, int)
    parts = pp * chunks
    if fixed == (None, None):
        if (layers + sum(ends)) % parts:
            said = f"{layers} layers do not divide into {parts} parts"
            given.fault("--pipeline-model-parallel-size", said, "stages that divide the layers")
            return
        one = (layers + sum(ends)) // parts
        counts = [one] * parts
        counts[0] -= ends[0]
        counts[-1] -= ends[1]
    else:
        counts = _with_fixed(given, layers, parts, chunks, fixed)
    if len(set(counts)) > 1:
        options["layers_per_stage"] = ",".join(map(str, counts))


def _with_fixed(
    given: Given, layers: int, parts: int, chunks: int, fixed: tuple[int | None, int | None]
) -> list[int]:
    """Layers of each part where the first and last stage have given numbers, which their chunks
    share evenly."""
    stages = parts // chunks
    left = layers - sum(each or 0 for each in fixed)
    others = stages - sum(each is not None for each in fixed)
    sizes = [each // chunks for each in fixed if each is not None]
    even = all(each is None or each % chunks == 0 for each in fixed)
    if left < 0 or not even or (left % (others * chunks) if others else left):
        said = f"{layers} layers with {fixed[0]} in the first stage and {fixed[1]} in the last"
        given.fault("--decoder-first-pipeline-num-layers", said, "a rest that divides")
        return []
    middle = left // (others * chunks) if others else 0
    one = [middle] * stages
    if fixed[0] is not None:
        one[0] = sizes[0]
    if fixed[1] is not None:
        one[-1] = sizes[-1]
    return one * chunks


def _recompute(given: Given, options: dict[str, object], shape: Decoder | None) -> None:
    kind = given.word("--recompute-granularity", ("full", "selective"))
    if given.switch("--recompute-activations"):
        kind = "selective"
    how = given.word("--recompute-method", ("uniform", "block"))
    count = given.count("--recompute-num-layers")
    modules = given.words("--recompute-modules")
    if kind == "full":
        options["recompute"] = "full"
        _full(given, options, how, count, shape)
    elif kind == "selective":
        chosen = [] if modules == [] else modules or ["core_attn"]
        if wrong := sorted(set(chosen) - set(_MODULES)):
            given.fault("--recompute-modules", f"unknown: {wrong[0][:60]}", ", ".join(_MODULES))
        options["recompute"] = "selective" if "core_attn" in chosen else "none"
        if rest := [each for each in chosen if each != "core_attn"]:
            options["recompute_modules"] = ",".join(rest)


def _full(
    given: Given,
    options: dict[str, object],
    how: str | None,
    count: int | None,
    shape: Decoder | None,
) -> None:
    """Full recomputation: of groups of layers, or of some layers of each part of the pipeline."""
    if how is None:
        given.fault("--recompute-method", "is missing with full recomputation", "uniform, block")
    elif how == "block" and count is None:
        said = "is missing with --recompute-method block"
        given.fault("--recompute-num-layers", said, "layers of each part of the pipeline")
    elif count is not None and (how == "block" or count > 1):
        largest = None if shape is None else _largest(options, shape)
        options["recompute_layers"] = min(count, largest or count)
        if how == "uniform":
            options["recompute_method"] = how


def _largest(options: Mapping[str, object], shape: Decoder) -> int | None:
    """Layers of the largest part of the pipeline; `None` where the layout is faulty."""
    names = ("pp", "virtual_stages", "layers_per_stage", "mtp")
    given = {name: options[name] for name in names if name in options}
    try:
        return max(layout_of(shape, in_range(Parallelism, "", given)).layers)
    except (LayoutFault, InputError):
        return None


def _mixture(given: Given, options: dict[str, object]) -> None:
    ep, etp = (
        given.count("--expert-model-parallel-size"),
        given.count("--expert-tensor-parallel-size"),
    )
    capacity = given.number("--moe-expert-capacity-factor")
    padded = given.switch("--moe-pad-expert-input-to-capacity")
    kind = given.word("--moe-token-dispatcher-type", ("allgather", "alltoall", "flex"))
    backend = given.word("--moe-flex-dispatcher-backend", ("deepep", "hybridep"))
    deep = given.switch("--moe-enable-deepep") or (kind == "flex" and backend != "hybridep")
    groups, limit = given.count("--moe-router-num-groups"), given.count("--moe-router-group-topk")
    if not given.has("--num-experts"):
        return
    if ep is not None:
        options["ep"] = ep
    _divided(given, options, etp, ep or 1)
    if capacity:
        options["capacity_factor"] = capacity
        if not padded:
            given.note("inputs of experts are taken as padded to the capacity")
    if (ep or 1) > 1 and kind in (None, "allgather"):
        given.note("tokens are sent all to all, not gathered (--moe-token-dispatcher-type)")
    if kind == "flex" and backend == "hybridep":
        given.note("HybridEP has no model: tokens are sent to each of their experts")
    if deep and (ep or 1) > 1:
        _nodes(given, options, ep or 1, groups, limit)


def _divided(given: Given, options: dict[str, object], etp: int | None, ep: int) -> None:
    """Ranks that divide an expert. Megatron spreads experts over the ranks of cp before those of
    dp, as the simulator does with etp 1 alone."""
    tp = options["tp"]
    if (etp or tp) == 1:
        options |= {"etp": 1} if ep > 1 else {}
    elif etp is not None and etp != tp:
        options["etp"] = etp
    elif ep > 1 and options["cp"] != 1:
        given.note("experts are spread over ranks of dp, not over those of cp first")


def _nodes(
    given: Given, options: dict[str, object], ep: int, groups: int | None, limit: int | None
) -> None:
    """DeepEP: ranks of `ep` that share a node."""
    each = given.count(_LAUNCHER[0]) or given.count(_LAUNCHER[1])
    if each is None:
        given.note("DeepEP: tokens are sent to each of their experts: ranks of a node are unknown")
        return
    tp, cp = options["tp"], options["cp"]
    assert isinstance(tp, int)
    assert isinstance(cp, int)
    stride = 1 if options.get("etp") == 1 else tp * cp
    near = min(ep, max(1, each // stride))
    options["ep_node"] = near
    if limit and groups == ep // near:
        options["node_limit"] = limit
    elif limit:
        given.note("--moe-router-group-topk limits groups that are not nodes, and is left out")
