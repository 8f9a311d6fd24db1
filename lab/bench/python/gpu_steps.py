"""Training steps that `measure_gpu.py` times: a Llama of 1 B parameters and a recommendation model,
in plain PyTorch. Each has its times, the kernels of one step, and the memory that it needs.

Weights are bf16, with fp32 gradients, an fp32 copy and two moments for each parameter, as
Megatron-LM holds them. The recommendation model is fp32, with products in TF32. Its tables are one
matrix, so that one kernel looks up all of them, and one adds the gradients (SGD)."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from gpu_timing import Device, Readings
from torch import nn
from torch.nn import functional

Row = dict[str, Any]

WARM, STEPS = 3, 10
"""Steps before those that are timed, and timed steps."""
_MOST_KERNELS = 60
"""Kernels of a step that are kept, those with most time."""
_MOST_NAME = 160

LLAMA: Row = {
    "kind": "transformer",
    "name": "llama-1b",
    "layers": 16,
    "hidden": 2048,
    "heads": 32,
    "kv_heads": 8,
    "ffn": 8192,
    "vocabulary": 128256,
    "sequence": 4096,
    "micro_batch": 2,
}
"""Llama 3.2 1B: config.json of meta-llama/Llama-3.2-1B; sequence and batch are ours."""
SMALL_LLAMA = LLAMA | {
    "name": "llama-small",
    "layers": 1,
    "hidden": 32,
    "heads": 4,
    "kv_heads": 2,
    "ffn": 64,
    "vocabulary": 128,
    "sequence": 32,
}
_POOLINGS = (3, 2, 1, 2, 6, 1, 1, 1, 1, 7, 3, 8, 1, 6, 9, 5, 1, 1, 1, 12, 10, 2, 1, 3, 1, 1)
DLRM: Row = {
    "kind": "dlrm",
    "name": "dlrm",
    "dense_features": 13,
    "bottom": [512, 256, 128],
    "top": [1024, 1024, 512, 256, 1],
    "tables": [{"rows": 1_000_000, "dim": 128, "pooling": each} for each in _POOLINGS],
    "local_batch": 8192,
}
"""26 tables with the lookups of the first 26 of MLPerf's DLRM-DCNv2 as far as they are at most 12,
each with a million rows. The MLPs are those of MLPerf's DLRM."""
SMALL_DLRM = DLRM | {
    "name": "dlrm-small",
    "bottom": [16, 8],
    "top": [16, 1],
    "tables": [{"rows": 100, "dim": 8, "pooling": each} for each in (1, 2, 3)],
    "local_batch": 32,
}


class _Attention(nn.Module):
    def __init__(self, hidden: int, heads: int, kv_heads: int) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.width = heads, kv_heads, hidden // heads
        self.query = nn.Linear(hidden, hidden, bias=False)
        self.key = nn.Linear(hidden, kv_heads * self.width, bias=False)
        self.value = nn.Linear(hidden, kv_heads * self.width, bias=False)
        self.out = nn.Linear(hidden, hidden, bias=False)

    def forward(self, x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        batch, length, hidden = x.shape

        def split(found: torch.Tensor, heads: int) -> torch.Tensor:
            return found.view(batch, length, heads, self.width).transpose(1, 2)

        query = _rotated(split(self.query(x), self.heads), rotary)
        key = _rotated(split(self.key(x), self.kv_heads), rotary)
        value = split(self.value(x), self.kv_heads)
        seen = functional.scaled_dot_product_attention(
            query, key, value, is_causal=True, enable_gqa=True
        )
        found: torch.Tensor = self.out(seen.transpose(1, 2).reshape(batch, length, hidden))
        return found


def _rotated(x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
    cosine, sine = rotary
    first, second = x.chunk(2, -1)
    return x * cosine + torch.cat((-second, first), -1) * sine


class _Layer(nn.Module):
    def __init__(self, hidden: int, heads: int, kv_heads: int, ffn: int) -> None:
        super().__init__()
        self.before, self.between = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
        self.attention = _Attention(hidden, heads, kv_heads)
        self.gate = nn.Linear(hidden, ffn, bias=False)
        self.up = nn.Linear(hidden, ffn, bias=False)
        self.down = nn.Linear(ffn, hidden, bias=False)

    def forward(self, x: torch.Tensor, rotary: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        x = x + self.attention(self.before(x), rotary)
        given = self.between(x)
        found: torch.Tensor = x + self.down(functional.silu(self.gate(given)) * self.up(given))
        return found


class Llama(nn.Module):
    """A decoder as Llama 3's, with one matrix for embedding and head."""

    def __init__(self, shape: Mapping[str, Any], device: torch.device) -> None:
        super().__init__()
        hidden, heads = shape["hidden"], shape["heads"]
        self.embedding = nn.Embedding(shape["vocabulary"], hidden)
        self.layers = nn.ModuleList(
            _Layer(hidden, heads, shape["kv_heads"], shape["ffn"]) for _ in range(shape["layers"])
        )
        self.norm = nn.RMSNorm(hidden)
        width = hidden // heads
        angles = torch.outer(
            torch.arange(shape["sequence"], device=device).float(),
            500_000.0 ** (-torch.arange(0, width, 2, device=device).float() / width),
        ).repeat(1, 2)
        self.rotary = angles.cos().bfloat16(), angles.sin().bfloat16()

    def forward(self, tokens: torch.Tensor, wanted: torch.Tensor) -> torch.Tensor:
        """The loss of the batch."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, self.rotary)
        logits = functional.linear(self.norm(x), self.embedding.weight)
        return functional.cross_entropy(logits.flatten(0, 1).float(), wanted.flatten())


class MixedAdamW:
    """AdamW on fp32 copies of 16-bit parameters. Gradients are added in fp32 as soon as they exist,
    and those of 16 bits are freed."""

    def __init__(self, parameters: Sequence[nn.Parameter]) -> None:
        self._parameters = list(parameters)
        self._masters = [each.detach().float() for each in parameters]
        for parameter, master in zip(self._parameters, self._masters, strict=True):
            master.grad = torch.zeros_like(master)
            parameter.register_post_accumulate_grad_hook(  # type: ignore[no-untyped-call]
                self._adder(master)
            )
        self._optimizer = torch.optim.AdamW(self._masters, lr=1e-4, fused=True)

    @staticmethod
    def _adder(master: torch.Tensor) -> Callable[[torch.Tensor], None]:
        def add(parameter: torch.Tensor) -> None:
            assert master.grad is not None
            assert parameter.grad is not None
            master.grad.add_(parameter.grad)
            parameter.grad = None

        return add

    def step(self) -> None:
        """Updates the copies, then the parameters. Gradients are 0 after it."""
        self._optimizer.step()
        torch._foreach_copy_([each.detach() for each in self._parameters], self._masters)
        torch._foreach_zero_([each.grad for each in self._masters if each.grad is not None])


def llama(shape: Mapping[str, Any], device: Device) -> Callable[[], object]:
    """A step of the decoder."""
    with torch.device(device.torch):
        model = Llama(shape, device.torch).to(torch.bfloat16)
    optimizer = MixedAdamW(list(model.parameters()))
    size = (shape["micro_batch"], shape["sequence"])
    tokens, wanted = (
        torch.randint(shape["vocabulary"], size, device=device.torch) for _ in range(2)
    )

    def step() -> None:
        model(tokens, wanted).backward()
        optimizer.step()

    return step


class _Lookup(torch.autograd.Function):
    """Sums of rows of one matrix. The backward pass updates the matrix (SGD)."""

    @staticmethod
    def forward(ctx: Any, *given: Any) -> torch.Tensor:  # noqa: ANN401 - as autograd has it
        weight, indices, offsets, counts, _ = given
        ctx.save_for_backward(weight, indices, counts)
        return functional.embedding_bag(indices, weight, offsets, mode="sum")

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:  # noqa: ANN401
        weight, indices, counts = ctx.saved_tensors
        rows = gradients[0].repeat_interleave(counts, 0, output_size=len(indices))
        weight.index_add_(0, indices, rows, alpha=-0.01)
        return None, None, None, None, torch.zeros((), device=weight.device)


def _mlp(widths: Sequence[int]) -> nn.Sequential:
    layers: list[nn.Module] = []
    for inputs, outputs in itertools.pairwise(widths):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers)


def dlrm(shape: Mapping[str, Any], device: Device) -> Callable[[], object]:
    """A step of the recommendation model; its inputs are on the device."""
    tables, samples, there = shape["tables"], shape["local_batch"], device.torch
    dim, features = tables[0]["dim"], len(tables) + 1
    weight = torch.rand(sum(each["rows"] for each in tables), dim, device=there)
    counts = torch.tensor([each["pooling"] for each in tables], device=there)
    counts = counts.repeat_interleave(samples)
    starts = itertools.accumulate((each["rows"] for each in tables), initial=0)
    indices = torch.cat(
        [
            start + torch.randint(each["rows"], (samples * each["pooling"],), device=there)
            for each, start in zip(tables, starts, strict=False)
        ]
    )
    offsets = counts.cumsum(0) - counts
    with torch.device(there):
        bottom = _mlp([shape["dense_features"], *shape["bottom"]])
        top = _mlp([dim + features * (features - 1) // 2, *shape["top"]])[:-1]
    pairs = torch.tril_indices(features, features, -1, device=there)
    optimizer = torch.optim.SGD([*bottom.parameters(), *top.parameters()], lr=0.01)
    dense = torch.randn(samples, shape["dense_features"], device=there)
    labels = torch.randint(2, (samples, 1), device=there).float()
    trained = torch.zeros((), device=there, requires_grad=True)

    def step() -> None:
        pooled = _Lookup.apply(weight, indices, offsets, counts, trained)
        first = bottom(dense)
        vectors = torch.cat([first[None], pooled.view(len(tables), samples, dim)]).transpose(0, 1)
        dots = torch.bmm(vectors, vectors.transpose(1, 2))[:, pairs[0], pairs[1]]
        found = top(torch.cat([first, dots], 1))
        loss = functional.binary_cross_entropy_with_logits(found, labels)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    return step


_MAKERS = {"transformer": llama, "dlrm": dlrm}


def step_row(
    shape: Mapping[str, Any], device: Device, readings: Readings, traces: Path | None
) -> Row:
    """Times, kernels and memory of a step."""
    if device.on_gpu:
        torch.set_float32_matmul_precision("high")
    before = _allocated(device)
    step = _MAKERS[shape["kind"]](shape, device)
    for _ in range(WARM):
        step()
    device.wait()
    held = _allocated(device) - before
    if device.on_gpu:
        torch.cuda.reset_peak_memory_stats()
    begin = time.monotonic()
    times = device.each(step, STEPS if device.on_gpu else 2)
    state = readings.between(begin, time.monotonic())
    row = {**shape, "step_us": [round(1e6 * each, 1) for each in times], "state": state}
    row["memory"] = _memory(held, before) if device.on_gpu else None
    row["kernels"] = _kernels(step, device, traces and traces / f"{shape['name']}.json")
    return row


def _allocated(device: Device) -> int:
    return torch.cuda.memory_allocated() if device.on_gpu else 0


def _memory(held: int, before: int) -> Row:
    """Statistics of PyTorch's allocator, bytes: tensors between steps, their peak in a step, and
    what the snapshot of its segments has."""
    segments = torch.cuda.memory.memory_snapshot()  # type: ignore[no-untyped-call]
    blocks = [block for each in segments for block in each["blocks"]]
    idle = [int(block["size"]) for block in blocks if block["state"] == "inactive"]
    return {
        "held_bytes": held,
        "peak_bytes": torch.cuda.max_memory_allocated() - before,
        "reserved_bytes": torch.cuda.memory_reserved(),
        "segments": len(segments),
        "idle_bytes": sum(idle),
        "largest_idle_bytes": max(idle, default=0),
    }


def _kernels(step: Callable[[], object], device: Device, trace: Path | None) -> Row:
    """Kernels of a step by name, and their time together; operators on a processor. The profiler
    makes the step longer, so `step_us` is of other steps."""
    kinds = [torch.profiler.ProfilerActivity.CPU]
    if device.on_gpu:
        kinds.append(torch.profiler.ProfilerActivity.CUDA)
    with torch.profiler.profile(activities=kinds) as profile:
        step()
        device.wait()
    if trace is not None:
        profile.export_chrome_trace(str(trace))
    found: dict[str, tuple[int, float]] = {}
    for event in profile.events() or ():
        on_gpu = event.device_type.name == "CUDA"
        if on_gpu != device.on_gpu or getattr(event, "is_user_annotation", False):
            continue
        us = event.time_range.elapsed_us() if on_gpu else event.self_cpu_time_total
        count, total = found.get(event.name, (0, 0.0))
        found[event.name] = count + 1, total + us
    ordered = sorted(found.items(), key=lambda each: (-each[1][1], each[0]))
    return {
        "count": sum(count for count, _ in found.values()),
        "us": round(sum(us for _, us in found.values()), 1),
        "longest": [
            {"name": name[:_MOST_NAME], "count": count, "us": round(us, 1)}
            for name, (count, us) in ordered[:_MOST_KERNELS]
        ],
    }
