"""The units of every pipeline stage of a decoder: layers, embedding, head, multi-token prediction.

Not here: what a layer does (`layer.py`, `experts.py`), stages of any model (`plan.py`)."""

from __future__ import annotations

from dataclasses import replace

from ..model.decoder import Decoder
from ..model.flops import Flops, step_flops
from ..model.weights import (
    Tensors,
    Weights,
    embedding_weights,
    head_weights,
    layer_tensors,
    layer_weights,
    mtp_tensors,
    mtp_weights,
    narrow_weights,
    norm_weights,
)
from .experts import experts
from .layer import adapters, all_adapters, attention, embedding, heads, perceptron, projection
from .memory import (
    Rules,
    embedding_activations,
    head_activations,
    layer_activations,
    projection_activations,
    rules,
)
from .parallelism import Recompute
from .placement import Layout, layout_of
from .plan import NONE, Chunk, StagePlan, Unit
from .recompute import checkpoints, modules_repeat, recomputed, repeated
from .script import Script, Scripts, join
from .setting import Setting


class DecoderPlan(StagePlan):
    """The units of every stage of a decoder; equal layers share their scripts."""

    at: Setting

    def __init__(self, at: Setting) -> None:
        self.whole = _undropped(at)
        """The setting in which a layer keeps all that is there in its backward pass."""
        self.kinds: dict[tuple[bool, Decoder], tuple[Scripts, Script]] = {}
        super().__init__(at, laid_out(at))

    def _stage(self, stage: int) -> list[Chunk]:
        chunks: list[Chunk] = []
        modules = 0
        for chunk in range(self.place.chunks):
            part = self.place.part(stage, chunk)
            count, first, mtp = (
                self.layout.layers[part],
                self.layout.first[part],
                self.layout.mtp[part],
            )
            units = self._part(first, count)
            units += [self.module(f"mtp{modules + i}") for i in range(mtp)]
            modules += mtp
            units = [self.embedding(), *units] if part == 0 else units
            units = [*units, self.head()] if part == self.place.parts - 1 else units
            chunks.append(Chunk(tuple(units)))
        return self._with_embedding(stage, chunks)

    def _with_embedding(self, stage: int, chunks: list[Chunk]) -> list[Chunk]:
        """With the embedding's weights where modules need them and neither it nor the head it is
        tied to is there."""
        names = {unit.name for chunk in chunks for unit in chunk.units}
        shared = "embedding" in names or (self.at.model.tied and "head" in names)
        if shared or not any(name.startswith("mtp") for name in names):
            return chunks
        copy = replace(
            self.embedding(), name="mtp.embedding", scripts=Scripts((), (), (), ()), activations=0
        )
        at = next(
            i
            for i, chunk in enumerate(chunks)
            if any(unit.name.startswith("mtp") for unit in chunk.units)
        )
        return [
            replace(chunk, units=(copy, *chunk.units)) if i == at else chunk
            for i, chunk in enumerate(chunks)
        ]

    def _kind(self, at: Setting, mixed: bool) -> tuple[Scripts, Script]:
        key = mixed, at.model
        if key not in self.kinds:
            block = experts(at) if mixed else perceptron(at, at.model.ffn)
            scripts = join(attention(at), block)
            self.kinds[key] = scripts, recomputed(at, scripts, mixed)
        return self.kinds[key]

    def _part(self, first: int, count: int) -> list[Unit]:
        """The layers of a part, from the model's layer `first` on."""
        units = [self.layer(f"layer{i}", i) for i in range(first, first + count)]
        if self.at.par.recompute_layers is None:
            return units
        found = [self._kept(unit, first + i) for i, unit in enumerate(units)]
        for each in checkpoints(self.at.par, count):
            found[each.start : each.stop] = self._checkpoint(
                units[each.start : each.stop], first + each.start
            )
        return found

    def counted(self, layer: int) -> tuple[Unit, Unit]:
        """Layer `layer` where it is recomputed from its own input, and where it is left out."""
        unit = self.layer(f"layer{layer}", layer)
        return self._checkpoint([unit], layer)[0], self._kept(unit, layer)

    def _kept(self, unit: Unit, layer: int) -> Unit:
        """A layer that full recomputation leaves out."""
        spared = self._back(layer)
        return replace(unit, again=(), activations=unit.activations + spared, spared=spared)

    def _checkpoint(self, units: list[Unit], first: int) -> list[Unit]:
        """Layers from `first` on that are recomputed from the input of the first of them."""
        if len(units) == 1:
            return [replace(units[0], back=self.dropped())]
        inputs = sum(unit.activations for unit in units[1:])
        back = inputs + sum(self._back(first + i) for i in range(len(units)))
        inner = [replace(unit, again=unit.scripts.forward, together=0) for unit in units[:-1]]
        found = [*inner, replace(units[-1], back=back, together=len(units))]
        return [found[0], *(replace(unit, activations=0) for unit in found[1:])]

    def _back(self, layer: int) -> int:
        """Bytes that recomputation brings back for the backward pass of a layer."""
        settings = (self.whole.of(layer), self.at.of(layer))
        there, kept = (layer_activations(at, layer) for at in settings)
        return there - kept

    def layer(self, name: str, layer: int) -> Unit:
        """Layer `layer` of the model."""
        model, par = self.at.model, self.at.par
        cut = par.tp, par.ep, par.expert_tp
        weights = layer_weights(model, layer, *cut)
        tensors = layer_tensors(model, layer, *cut)
        width = par.bytes.gemm if par.fp8_param_gather else par.bytes.weight
        narrow = narrow_weights(model, layer, *cut).total if par.fp8_weight_cache else 0
        at = self.at.of(layer)
        kind = self._kind(at, model.has_experts(layer))
        frozen = NONE
        if par.lora_rank:
            tensors, frozen = Tensors(adapters(at)), weights
            weights += Weights(sum(tensors.dense))
        kept = layer_activations(at, layer)
        return Unit(name, *kind, weights, tensors, kept, width, narrow, frozen)

    def module(self, name: str) -> Unit:
        """A multi-token-prediction module: what projects, and a layer like the model's last."""
        model, par = self.at.model, self.at.par
        last = model.layers - 1
        layer = self.layer(name, last)
        if par.recompute_layers is not None:
            again = self._checkpoint([layer], last)[0]
            layer = again if modules_repeat(par) else self._kept(layer, last)
        cut = par.tp, par.ep, par.expert_tp
        return replace(
            layer,
            scripts=join(projection(self.at), layer.scripts),
            weights=mtp_weights(model, *cut),
            tensors=mtp_tensors(model, *cut),
            activations=layer.activations + projection_activations(self.at),
        )

    def embedding(self) -> Unit:
        """The embedding."""
        count, width = embedding_weights(self.at.model, self.at.par.tp), self.at.par.bytes.weight
        kept = embedding_activations(self.at)
        return self._whole("embedding", embedding(self.at), (count,), kept, width)

    def head(self) -> Unit:
        """The head with the norm before it."""
        model, par = self.at.model, self.at.par
        shared = model.tied and (par.pp == 1 or par.both_ways)
        tensors = (norm_weights(model), *(() if shared else (head_weights(model, par.tp),)))
        kept, width = (1 + par.mtp) * head_activations(self.at), par.bytes.weight
        return self._whole("head", heads(self.at), tensors, kept, width)

    def _whole(
        self, name: str, scripts: Scripts, tensors: tuple[int, ...], kept: int, width: int
    ) -> Unit:
        """A unit without adapters, which low-rank adapters elsewhere freeze."""
        weights, frozen = Weights(sum(tensors)), bool(self.at.par.lora_rank)
        trained = Tensors(() if frozen else tensors)
        return Unit(
            name, scripts, (), weights, trained, kept, width, frozen=weights if frozen else NONE
        )

    @property
    def sharing(self) -> list[int]:
        """Stages other than the first that hold their own copy of the embedding."""
        if self.at.par.lora_rank or (self.at.par.both_ways and self.at.model.tied):
            return []
        found = []
        for stage, chunks in enumerate(self.stages):
            names = {unit.name for chunk in chunks for unit in chunk.units}
            if stage and ("mtp.embedding" in names or (self.at.model.tied and "head" in names)):
                found.append(stage)
        return found

    def rules(self, stage: int) -> Rules:
        """All that decides the memory of a stage besides its units: the same for all stages."""
        return rules(self.at, self.dropped())

    @property
    def experts(self) -> int:
        """Experts of a layer on a rank, at least 1."""
        return max(self.at.model.experts // self.at.par.ep, 1)

    def dropped(self) -> int:
        """Most bytes that recomputation brings back for the backward pass of one layer."""
        if self.whole is self.at:
            return 0
        return max(self._back(layer) for layer, _ in self.at.model.kinds())

    @property
    def shared(self) -> int:
        """Parameters of that copy on one rank."""
        return head_weights(self.at.model, self.at.par.tp)


def operations(at: Setting) -> Flops:
    """Operations of a step."""
    shape, par = at.model, at.par
    whole = repeated(par, laid_out(at))
    sizes = par.global_batch or 0, par.seq or 0
    return step_flops(shape, *sizes, par.repeated, par.modules, par.mtp, all_adapters(at), whole)


def _undropped(at: Setting) -> Setting:
    """The setting in which a layer keeps what is there in its backward pass: all of it, single
    modules, or the experts with `ops`."""
    par = at.par
    all_ = par.recompute == "full" or (par.recompute == "ops" and bool(at.model.experts))
    if not (all_ or par.modules):
        return at
    kept: Recompute = "none" if all_ else par.recompute
    return Setting(at.model, replace(par, recompute_modules=None, recompute=kept))


def laid_out(at: Setting) -> Layout:
    """Layers and modules of each part of the pipeline."""
    return layout_of(at.model, at.par)
