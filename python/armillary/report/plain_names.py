"""Names of generated operations in plain words: `*.layer*.up.dgrad` is "the input gradient of the
up-projection in all layers".

Here: words for the names that the generators of workloads give. Not here: names of workloads and
classes of ranks (`names.py`). A name that is not known stays as it is."""

from __future__ import annotations

import re

_LAYER = re.compile(r"layer(\*|\d+)\.(.+)")
_MICRO_BATCH = re.compile(r"(?:\*|\d+)\.")
_NUMBER = r"(?:\*|\d+)"
_MODULES = {
    "up": "the up-projection",
    "gate": "the gate projection",
    "down": "the down-projection",
    "qkv": "the projection to queries, keys and values",
    "q_up": "the up-projection of queries",
    "kv_up": "the up-projection of keys and values",
    "out": "the output projection of attention",
    "heads": "the layout of attention's heads",
    "rotary": "the rotary embedding",
    "activation": "the activation of the MLP",
    "router": "the router",
    "permute": "the sorting of tokens by expert",
    "unpermute": "the sorting of tokens back",
    "accumulate": "the accumulation of weight gradients",
    "attention.core": "attention",
    "scores": "attention's scores",
    "softmax": "the softmax of attention",
    "dropout": "dropout",
    "context": "the product of attention's scores and values",
    "keys": "attention's keys",
    "queries": "attention's queries",
    "values": "attention's values",
    "attention.merge": "the merging of attention's blocks",
    "attention.norm": "the norm before attention",
    "mlp.norm": "the norm before the MLP",
    "experts.norm": "the norm before the experts",
    "experts.up": "the experts' up-projection",
    "experts.down": "the experts' down-projection",
    "experts.activation": "the activation of the experts",
    "shared.up": "the shared experts' up-projection",
    "shared.down": "the shared experts' down-projection",
    "shared.activation": "the activation of the shared experts",
    "embedding": "the embedding",
    "logits": "the output layer",
    "loss": "the loss",
    "norm": "the last norm",
}
_PLACES = {
    "attention": "attention",
    "mlp": "the MLP",
    "experts": "the experts",
    "head": "the output layer",
    "embedding": "the embedding",
}
_MOVES = {
    "gather": "the all-gather before {}",
    "gather_again": "the repeated all-gather before {}",
    "gather_grad": "the all-gather of gradients after {}",
    "reduce": "the reduction after {}",
    "reduce_grad": "the reduction of gradients before {}",
}
_WHOLE = {
    "experts.dispatch": "the dispatch of tokens to experts",
    "experts.dispatch_grad": "the gradient of the dispatch of tokens to experts",
    "experts.combine": "the combination of experts' results",
    "experts.combine_grad": "the gradient of the combination of experts' results",
    "parameters.dp": "the gathering of parameters",
    "gradients.dp": "the reduction of gradients",
    "parameters.edp": "the gathering of the experts' parameters",
    "gradients.edp": "the reduction of the experts' gradients",
    "step.optimizer": "the optimizer",
    "step.send_embedding_grad": "gradients of the embedding sent between its stages",
    "step.receive_embedding_grad": "gradients of the embedding received between its stages",
    "loss.reduce": "the reduction of the loss",
}
_STAGES = {
    "send": "activations sent to the next stage",
    "receive": "activations received from the stage before",
    "send_grad": "gradients sent to the stage before",
    "receive_grad": "gradients received from the next stage",
}
_ENDINGS = {
    ".dgrad": "the input gradient of {}",
    ".wgrad": "the weight gradient of {}",
    ".grad": "the gradient of {}",
}
_PASSES = {
    "forward": "the forward pass of {}",
    "input_gradient": "the input gradient of {}",
    "weight_gradient": "the weight gradient of {}",
}
_TYPES = (
    (r"bottom\..+", "the bottom MLP"),
    (r"top\..+", "the top MLP"),
    (r"(?:.+\.)?conv.*", "convolutions"),
    (r"(?:.+\.)?downsample", "convolutions of shortcuts"),
    (r"fc", "the last layer"),
    (r"embedding", "the embedding tables"),
    (r"interaction", "the interaction of features"),
    (r"indices", "the lookup indices"),
    (r"lengths", "the numbers of lookups"),
)
"""Modules of convolutional and recommendation models."""


class Named(str):
    """An operation as a cell of a table has it: in plain words. `name` is the one in the report,
    which `armillary explain` takes."""

    __slots__ = ("name",)
    name: str

    def __new__(cls, name: str) -> Named:
        """The words for `name`."""
        made = super().__new__(cls, words(name).removeprefix("the "))
        made.name = name
        return made


def words(name: str) -> str:
    """An operation in plain words; the name itself where no generator gives it."""
    return _stage(name) or _layered(name) or _by_pass(name) or name


def _stage(name: str) -> str | None:
    """Messages between the stages of a pipeline."""
    found = re.fullmatch(rf"(?:{_NUMBER}\.)?(send|receive|send_grad|receive_grad)\.{_NUMBER}", name)
    return _STAGES[found[1]] if found else None


def _layered(name: str) -> str | None:
    """An operation of a transformer, in one layer or in all of them."""
    rest = _MICRO_BATCH.sub("", name, count=1) if _MICRO_BATCH.match(name) else name
    rest = re.sub(r"^(?:re)?gather\.", "", rest)
    layer = _LAYER.fullmatch(rest)
    inside = layer[2] if layer else rest
    again = inside.startswith("again.")
    said = _module(inside.removeprefix("again."))
    if said is None:
        return None
    said = f"the recomputation of {said}" if again else said
    if layer is None:
        return said
    return f"{said} in {'all layers' if layer[1] == '*' else f'layer {layer[1]}'}"


def _module(name: str) -> str | None:
    """A module without its layer."""
    if re.fullmatch(rf"kv(_again|_grad)?\.{_NUMBER}\.(send|receive)", name):
        gradients = "gradients of " if name.startswith("kv_grad") else ""
        return f"the exchange of {gradients}keys and values around the ring"
    if re.fullmatch(r"experts\.(computed|dispatched)(\.grad)?\.sort", name):
        return "the sorting of tokens by expert"
    name = re.sub(r"^(?:head|embedding)\.(?=.*\.|logits|loss|embedding)", "", name)
    if name in _WHOLE:
        return _WHOLE[name]
    for ending, form in _ENDINGS.items():
        if name.endswith(ending):
            inner = _module(name.removesuffix(ending))
            return form.format(inner) if inner else None
    place, _, move = name.rpartition(".")
    if place in _PLACES and move in _MOVES:
        return _MOVES[move].format(_PLACES[place])
    bare = re.sub(rf"\.{_NUMBER}$|\.home$", "", name)
    return _MODULES.get(bare) or _MODULES.get(bare.removeprefix("head."))


def _by_pass(name: str) -> str | None:
    """An operation of a convolutional or recommendation model, and its collective."""
    found = re.fullmatch(rf"(.+?)\.({'|'.join(_PASSES)})(?:\.(\w+))?", name)
    if found is None:
        return None
    module = next((said for form, said in _TYPES if re.fullmatch(form, found[1])), None)
    if module is None:
        return None
    said = _PASSES[found[2]].format(module)
    if found[3] in {"elementwise", "normalization"}:
        return f"{found[3]} kernels in {said}"
    return f"the {found[3].replace('_', '-')} for {said}" if found[3] else said
