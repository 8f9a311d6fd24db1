"""Which layers are in which part of a pipeline, and which rank has which part.

Here: dividing layers into parts, reading a layout, where a part and its neighbours are. Not here:
what a part does (`stage.py`), the order of passes (`schedule.py`).

A pipeline of `pp` stages with `v` chunks each has `pp` x `v` parts in model order. Part `q` is
chunk `q / pp` of stage `q mod pp`. Under DualPipe every part exists twice: stage `s` has part `s`
for micro-batches that go up, and part `pp - 1 - s` for those that go down. The lower of the two is
its chunk 0. Ranks of stages `s` and `pp - 1 - s` hold the same parameters in the same chunks, so
they are neighbours along an axis of their own, `mirror`.

Sources: DeepSeek-AI 2024 (arXiv:2412.19437, section 3.2.1) and deepseek-ai/DualPipe (placement of
parts); NVIDIA/Megatron-LM, `pipeline_parallel_layer_layout.py` (layouts)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from ..model.decoder import Decoder
from ..model.flops import multiplied
from ..units import counted
from .parallelism import Parallelism

MIRROR = "mirror"
"""The axis along which DualPipe's ranks hold the same parameters."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Layers and multi-token-prediction modules of each part, in model order."""

    layers: tuple[int, ...]
    mtp: tuple[int, ...]

    @property
    def first(self) -> tuple[int, ...]:
        """The first layer of each part."""
        return tuple(sum(self.layers[:part]) for part in range(len(self.layers)))

    def carried(self, part: int) -> int:
        """Hidden states of a token that enter `part`: the model's, and one of each module before
        it."""
        return 1 + sum(self.mtp[:part])


@dataclass(frozen=True, slots=True)
class PipelinePlacement:
    """Where the parts of a pipeline are."""

    pp: int
    chunks: int
    """Model chunks of a stage."""
    both_ways: bool = False
    """DualPipe: micro-batches go up and down."""

    @property
    def parts(self) -> int:
        """Parts of the model."""
        return self.pp if self.both_ways else self.pp * self.chunks

    def part(self, stage: int, chunk: int) -> int:
        """The part that is chunk `chunk` of `stage`."""
        if self.both_ways:
            return (max if chunk else min)(stage, self.pp - 1 - stage)
        return chunk * self.pp + stage

    def at(self, part: int, stage: int, chunk: int) -> tuple[int, int]:
        """Stage and chunk of `part`, as a micro-batch that is in `chunk` of `stage` meets it."""
        if not self.both_ways:
            return part % self.pp, part // self.pp
        upwards = self.part(stage, chunk) == stage
        return (part if upwards else self.pp - 1 - part), int(2 * part >= self.pp)

    def index(self, stage: int) -> int:
        """Position of a stage's ranks along the slowest axes of the mesh."""
        if not self.both_ways:
            return stage
        upper = 2 * stage >= self.pp
        return 2 * (self.pp - 1 - stage if upper else stage) + upper

    @property
    def stages(self) -> list[int]:
        """Stages in the order of `index`."""
        return sorted(range(self.pp), key=self.index)


def even(layers: int, parts: int) -> bool:
    """Whether layers, or layers with embedding and head as one each, divide into `parts`."""
    return layers % parts == 0 or (parts > 1 and (layers + 2) % parts == 0)


def split(layers: int, parts: int) -> list[int]:
    """Layers of each part in model order: the same number in each where that is possible, if need
    be with embedding and head as a layer each; otherwise as evenly as they go."""
    if not even(layers, parts):
        return nearly_even(layers, parts)
    if layers % parts == 0:
        return [layers // parts] * parts
    each = (layers + 2) // parts
    return [each - (part == 0) - (part == parts - 1) for part in range(parts)]


def dealt(layers: int, parts: int) -> str:
    """Words of a report for parts that differ in their number of layers; empty where they do
    not."""
    if layers % parts == 0:
        return ""
    if even(layers, parts):
        return f"{layers} layers over {parts} parts: embedding and head count as a layer each"
    counts = shortened(split(layers, parts))
    return f"{layers} layers over {parts} parts as evenly as they go: {counts}"


def split_by_cost(model: Decoder, parts: int) -> list[int]:
    """Layers of each part where a part ends with the layer that reaches its share of all
    multiplications.

    The head's count, the embedding has none; every part but the last has a layer. This is how
    nanotron deals blocks to pipeline ranks (huggingface/nanotron, `get_block_compute_costs`)."""
    costs = [multiplied(model, layer) for layer in range(model.layers)]
    total = sum(costs) + model.hidden * model.vocabulary
    counts, done = [0] * parts, 0
    part = 0
    for layer, cost in enumerate(costs):
        counts[part] += 1
        done += cost
        left, wanting = model.layers - layer - 1, parts - part - 2
        if part < parts - 1 and (done * parts >= total * (part + 1) or left <= wanting):
            part += 1
    return counts


class LayoutFault(ValueError):
    """Fault of a layout, with the allowed values."""

    def __init__(self, message: str, allowed: str) -> None:
        super().__init__(message)
        self.message, self.allowed = message, allowed


def read_layout(text: str, layers: int, parts: int, mtp: int) -> Layout:
    """A layout of `layers` layers with `mtp` modules over `parts` parts.

    `text` is a list of layers (`4,4,5`, shortened `4*2,5`), modules then being in the last part, or
    Megatron's layout (`Et*3|(tt|)*29m|L`: embedding, layers, modules, loss, a bar between parts).
    Raises `LayoutFault`."""
    found = _letters(text, mtp) if re.search(r"[EtmL|]", text) else _numbers(text, mtp)
    words = f"{parts} parts (pp x virtual_stages)"
    if len(found.layers) != parts:
        raise LayoutFault(
            f"{len(found.layers)} parts for {words}", f"a number of layers for each of {words}"
        )
    if sum(found.layers) != layers:
        raise LayoutFault(
            f"adds up to {counted(sum(found.layers), 'layer')}", f"{layers} layers in all"
        )
    idle = [part for part, count in enumerate(found.layers) if not count and 0 < part < parts - 1]
    if any(not found.mtp[part] for part in idle):
        raise LayoutFault(
            f"part {idle[0]} has no layer", "1 or more layers; 0 only in the first and last part"
        )
    return found


def _numbers(text: str, mtp: int) -> Layout:
    counts: list[int] = []
    for item in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:\s*\*\s*(\d{1,6}))?\s*", item)
        if match is None:
            raise LayoutFault(
                f"{item.strip()!r} is not a number of layers", "such as 4,4,5 or 4*15,1"
            )
        counts += [int(match[1])] * int(match[2] or 1)
    return Layout(tuple(counts), (*(0 for _ in counts[1:]), mtp))


def layout_of(model: Decoder, par: Parallelism) -> Layout:
    """Where the layers and modules of a model are. Raises `LayoutFault`."""
    if par.layers_per_stage is not None:
        return read_layout(str(par.layers_per_stage), model.layers, par.parts, par.mtp)
    by_cost = par.partition == "cost"
    counts = split_by_cost(model, par.parts) if by_cost else split(model.layers, par.parts)
    return Layout(tuple(counts), (*(0 for _ in counts[1:]), par.mtp))


_MOST_LETTERS = 100_000
"""Length of a layout written out."""


def _letters(text: str, mtp: int) -> Layout:
    """Megatron's layout: every part's letters, repetitions written out."""
    plain = written_out(re.sub(r"[\s,]", "", text))
    if wrong := re.search(r"[^EtmL|]", plain):
        raise LayoutFault(
            f"{wrong[0]!r} in a layout", "E, t, m, L, | and repetitions such as t*3 or (tt|)*29"
        )
    joined = plain.replace("|", "")
    if not re.fullmatch(r"Et*m*L", joined):
        raise LayoutFault(
            f"the order is {_short(joined)}",
            "E (embedding), then t (layers), m (multi-token prediction), L (loss)",
        )
    parts = plain.split("|")
    if "E" not in parts[0] or "L" not in parts[-1]:
        raise LayoutFault(
            "a part before the embedding or after the loss", "E in the first part, L in the last"
        )
    if joined.count("m") != mtp:
        raise LayoutFault(f"{joined.count('m')} m, but mtp {mtp}", "one m for each module of mtp")
    return Layout(
        tuple(part.count("t") for part in parts), tuple(part.count("m") for part in parts)
    )


def written_out(text: str) -> str:
    """Repetitions of brackets and letters replaced by what they stand for. Raises
    `LayoutFault`."""
    while match := re.search(r"\(([^()]*)\)(?:\*(\d{1,5}))?", text):
        text = text[: match.start()] + match[1] * int(match[2] or 1) + text[match.end() :]
        if len(text) > _MOST_LETTERS:
            raise LayoutFault("longer than any pipeline", f"up to {_MOST_LETTERS} letters")
    found = re.sub(r"([A-Za-z|])\*(\d{1,5})", lambda match: match[1] * int(match[2]), text)
    if len(found) > _MOST_LETTERS:
        raise LayoutFault("longer than any pipeline", f"up to {_MOST_LETTERS} letters")
    return found


def _short(text: str) -> str:
    return re.sub(r"(.)\1{2,}", lambda match: f"{match[1]}*{len(match[0])}", text)


def shortened(counts: Sequence[int]) -> str:
    """Counts as a layout: `4*15,1`."""
    runs: list[list[int]] = []
    for count in counts:
        if runs and runs[-1][0] == count:
            runs[-1][1] += 1
        else:
            runs.append([count, 1])
    return ",".join(f"{count}*{times}" if times > 1 else str(count) for count, times in runs)


def nearly_even(layers: int, parts: int) -> list[int]:
    """Layers dealt as evenly as they go, the first and last part, with embedding and head, getting
    the fewest."""
    each, more = divmod(layers, parts)
    order = sorted(range(parts), key=lambda part: (part in (0, parts - 1), part == parts - 1, part))
    extra = set(order[:more])
    return [each + (part in extra) for part in range(parts)]
