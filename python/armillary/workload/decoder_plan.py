"""The units of every pipeline stage of a decoder: layers, embedding, head, multi-token prediction.

Not here: what a layer does (`layer.py`, `experts.py`), stages of any model (`plan.py`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..model.decoder import Decoder
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
from .layer import adapters, attention, embedding, heads, join, perceptron, projection
from .memory import (
    embedding_activations,
    gathered,
    head_activations,
    layer_activations,
    loss,
    metric_logits,
    projection_activations,
    states,
    temporary,
)
from .placement import Layout, read_layout, split, split_by_cost
from .plan import NONE, Chunk, StagePlan, Unit, placement
from .recompute import recomputed
from .schedule import Pass, held
from .script import Script, Scripts
from .setting import Setting
from .summary import Memory


class DecoderPlan(StagePlan):
    """The units of every stage of a decoder; equal layers share their scripts."""

    at: Setting

    def __init__(self, at: Setting) -> None:
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
            units = [self.layer(f"layer{first + i}", first + i) for i in range(count)]
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
        layer = self.layer(name, model.layers - 1)
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

    def memory(self, stage: int, passes: Sequence[Pass]) -> Memory:
        """Peak bytes on one NPU of a stage."""
        chunks = self.stages[stage]
        trained = self.trained(stage)
        base = states(self.weights(stage), self.at.par, self.owned(stage), trained)
        all_units = [unit for chunk in chunks for unit in chunk.units]
        units = {unit.name: unit.trained for unit in all_units}
        tensor = _largest_tensor(all_units)
        largest = max((unit.weights for unit in all_units), key=lambda weights: weights.total)
        kept = held(list(passes), [chunk.activations for chunk in chunks])
        if "head" in units:
            kept = max(kept, metric_logits(self.at))
        # 8-bit copies of weights: as they are and transposed.
        narrow = 2 * sum(unit.narrow for unit in all_units)
        extra = gathered(self.at.par, largest) + narrow
        again = max(self.dropped() - (loss(self.at) if "head" in units else 0), 0)
        between = temporary(self.at, trained, units, tensor) + again
        return replace(base, weights=base.weights + extra, activations=kept, temporary=between)

    def dropped(self) -> int:
        """Bytes of what is computed again in the backward pass of one layer: all of it, single
        modules, or the experts with `ops`."""
        model, par = self.at.model, self.at.par
        full = par.recompute == "full"
        if not (full or par.modules or (par.recompute == "ops" and model.experts)):
            return 0
        kept = "none" if full or par.recompute == "ops" else par.recompute
        whole = Setting(model, replace(par, recompute_modules=None, recompute=kept))
        layers = [layer for layer, _ in model.kinds()]
        return max(
            layer_activations(whole.of(n), n) - layer_activations(self.at.of(n), n) for n in layers
        )

    @property
    def shared(self) -> int:
        """Parameters of that copy on one rank."""
        return head_weights(self.at.model, self.at.par.tp)


def _largest_tensor(units: Sequence[Unit]) -> int:
    """Parameters of the largest tensor of a layer. The gradient of the head comes when its loss is
    gone, and that of the embedding when layers are: both are less than what was there before."""
    layers = [unit for unit in units if unit.name.startswith(("layer", "mtp"))]
    return max(
        size for unit in layers or units for size in (0, *unit.tensors.dense, *unit.tensors.expert)
    )


def laid_out(at: Setting) -> Layout:
    """Layers and modules of each part of the pipeline."""
    par, parts = at.par, placement(at).parts
    if par.layers_per_stage is not None:
        return read_layout(str(par.layers_per_stage), at.model.layers, parts, par.mtp)
    by_cost = par.partition == "cost"
    counts = split_by_cost(at.model, parts) if by_cost else split(at.model.layers, parts)
    return Layout(tuple(counts), (*(0 for _ in counts[1:]), par.mtp))
