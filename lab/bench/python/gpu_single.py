"""Single kernels that `measure_gpu.py` times: products, attention, experts, copies, streams,
launches, and a product that is repeated until the GPU is hot.

Each function yields cases. A case is a shape, and the measurement that adds its time. Inputs exist
only while their case runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from gpu_timing import Call, Device, Readings, Timing
from torch.nn import functional
from torch.nn.attention import SDPBackend, sdpa_kernel

Row = dict[str, Any]


class Unsupported(Exception):
    """A kernel that this PyTorch or device does not have."""


@dataclass(frozen=True, slots=True)
class Case:
    """A measurement: the shape, and what times it."""

    row: Row
    time: Callable[[], Timing | list[Row]] = field(repr=False)

    def measured(self) -> list[Row]:
        """The rows of this case."""
        found = self.time()
        return found if isinstance(found, list) else [self.row | timed(found)]


def timed(found: Timing) -> Row:
    """Columns of a timing."""
    return {
        "us": round(found.us, 4),
        "spread": round(found.spread, 4),
        "how": found.how,
        "calls": found.calls,
        "sets": found.sets,
    }


_SQUARES = (512, 1024, 2048, 4096, 8192)
_LAYERS = ((4096, 4096), (14336, 4096), (4096, 14336))
_ROWS = (1, 16, 64, 256, 1024, 4096, 8192)
_OTHERS = ((1000, 5000, 3000), (128, 16896, 4096), (128, 17024, 4096), (8192, 128256, 2048))
_SMALL_PRODUCTS = ((64, 64, 64), (96, 128, 32))


def products(device: Device, small: bool) -> Iterator[Case]:
    """Products of `m x k` and `k x n`: bf16, and fp8 alone and after a conversion from bf16."""
    shapes = [(side, side, side) for side in _SQUARES]
    shapes += [(m, n, k) for n, k in _LAYERS for m in _ROWS]
    shapes += _OTHERS
    for m, n, k in _SMALL_PRODUCTS if small else shapes:
        for form in ("bf16", "fp8"):
            for converted in (False, True) if form == "fp8" else (False,):
                for cold in (True, False):
                    width = 1 if form == "fp8" else 2
                    held = width * (m * k + n * k)
                    if not cold and device.on_gpu and held > device.l2_bytes // 2:
                        continue
                    if form == "fp8" and (n % 16 or k % 16):
                        continue
                    row: Row = {"kind": "gemm", "m": m, "n": n, "k": k, "format": form}
                    row |= {"converted": converted, "cache": "cold" if cold else "warm"}
                    make = partial(_product, device, m, n, k, form, converted)
                    yield Case(row, partial(_sets, device, held, cold, make))


def _sets(device: Device, held: int, cold: bool, make: Callable[[], Call]) -> Timing:
    return device.timed([make() for _ in range(device.sets(held, cold))])


def _product(device: Device, m: int, n: int, k: int, form: str, converted: bool) -> Call:
    given, weights = device.draw(m, k), device.draw(n, k)
    if form == "bf16":
        return partial(torch.matmul, given, weights.t())
    if not hasattr(torch, "_scaled_mm"):
        raise Unsupported("this PyTorch has no torch._scaled_mm")
    eight = torch.float8_e4m3fn
    one = torch.ones((), device=device.torch)
    right = weights.to(eight).t()

    def multiplied(left: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = torch._scaled_mm(
            left, right, scale_a=one, scale_b=one, out_dtype=torch.bfloat16
        )
        return found

    if converted:
        return lambda: multiplied(given.to(eight))
    return partial(multiplied, given.to(eight))


_ATTENTIONS = (
    # batch, length, heads, heads of keys, elements of a head, causal
    (1, 1024, 32, 8, 128, True),
    (4, 2048, 32, 8, 128, True),
    (2, 4096, 32, 8, 128, True),
    (2, 4096, 32, 8, 128, False),
    (2, 4096, 32, 32, 128, True),
    (4, 4096, 32, 8, 64, True),
    (1, 8192, 64, 8, 128, True),
    (1, 16384, 32, 8, 128, True),
    (1, 16384, 32, 8, 128, False),
    (1, 32768, 8, 8, 128, True),
)
_SMALL_ATTENTIONS = ((1, 64, 4, 2, 16, True), (1, 64, 4, 4, 16, False))
_LIBRARIES = {"flash": SDPBackend.FLASH_ATTENTION, "cudnn": SDPBackend.CUDNN_ATTENTION}


def attentions(device: Device, small: bool) -> Iterator[Case]:
    """Attention of PyTorch, forward and backward, by FlashAttention 2 and by cuDNN."""
    for batch, length, heads, kv_heads, head_dim, causal in (
        _SMALL_ATTENTIONS if small else _ATTENTIONS
    ):
        for library in _LIBRARIES if device.on_gpu else ("flash",):
            for which in ("forward", "backward"):
                row: Row = {"kind": "attention", "batch": batch, "length": length}
                row |= {"heads": heads, "kv_heads": kv_heads, "head_dim": head_dim}
                row |= {"causal": causal, "pass": which, "library": library, "format": "bf16"}
                yield Case(row, partial(_attention, device, row))


def _attention(device: Device, row: Mapping[str, Any]) -> Timing:
    def drawn(heads: int) -> torch.Tensor:
        found = device.draw(row["batch"], heads, row["length"], row["head_dim"])
        return found.requires_grad_(row["pass"] == "backward")

    query, key, value = drawn(row["heads"]), drawn(row["kv_heads"]), drawn(row["kv_heads"])

    def forward() -> torch.Tensor:
        return functional.scaled_dot_product_attention(
            query, key, value, is_causal=row["causal"], enable_gqa=True
        )

    with sdpa_kernel(_LIBRARIES[row["library"]]):
        if row["pass"] == "forward":
            with torch.no_grad():
                return device.timed([forward])
        found = forward()
        gradient = torch.randn_like(found)
        inputs = (query, key, value)
        return device.timed(
            [lambda: torch.autograd.grad(found, inputs, gradient, retain_graph=True)]
        )


_EXPERTS = (
    # tokens, hidden, inner, experts, experts of a token
    *((tokens, 4096, 14336, 8, 2) for tokens in (64, 512, 4096)),
    *((tokens, 2048, 768, 128, 8) for tokens in (64, 512, 4096, 16384)),
    *((tokens, 7168, 2048, 32, 1) for tokens in (512, 4096)),
)
_SMALL_EXPERTS = ((32, 32, 16, 4, 2),)


def experts(device: Device, small: bool) -> Iterator[Case]:
    """A layer of gated experts by PyTorch's grouped product: both products alone, and the layer
    with permutation, activation and weighted sum. Tokens are spread evenly, or by Zipf's law."""
    for tokens, hidden, inner, count, top_k in _SMALL_EXPERTS if small else _EXPERTS:
        for spread in ("even", "zipf"):
            for part in ("products", "layer"):
                row: Row = {"kind": "experts", "tokens": tokens, "hidden": hidden, "inner": inner}
                row |= {"experts": count, "top_k": top_k, "spread_of_tokens": spread}
                row |= {"part": part, "format": "bf16"}
                yield Case(row, partial(_experts, device, row))


def _routed(device: Device, row: Mapping[str, Any]) -> torch.Tensor:
    """The experts of each token, [tokens, top_k]."""
    if row["spread_of_tokens"] == "even":
        shuffled = torch.rand(row["tokens"], row["experts"], device=device.torch)
        return shuffled.argsort(1)[:, : row["top_k"]]
    law = torch.arange(1, row["experts"] + 1, device=device.torch).float().reciprocal()
    return torch.multinomial(law.expand(row["tokens"], -1), row["top_k"])


def _experts(device: Device, row: Mapping[str, Any]) -> Timing:
    if not hasattr(torch, "_grouped_mm"):
        raise Unsupported("this PyTorch has no torch._grouped_mm")
    hidden, inner, count = row["hidden"], row["inner"], row["experts"]
    given = device.draw(row["tokens"], hidden)
    first = device.draw(count, hidden, 2 * inner)
    second = device.draw(count, inner, hidden)
    chosen = _routed(device, row).flatten()
    order = chosen.argsort(stable=True)
    source = order // row["top_k"]
    ends = torch.bincount(chosen, minlength=count).cumsum(0).to(torch.int32)
    weights = torch.rand(len(order), 1, device=device.torch).to(torch.bfloat16)
    sorted_, between = given[source], device.draw(len(order), inner)

    def both() -> None:
        torch._grouped_mm(sorted_, first, offs=ends)
        torch._grouped_mm(between, second, offs=ends)

    def layer() -> torch.Tensor:
        opened = torch._grouped_mm(given[source], first, offs=ends)
        gate, up = opened.chunk(2, 1)
        closed = torch._grouped_mm(functional.silu(gate) * up, second, offs=ends)
        return torch.zeros_like(given).index_add_(0, source, closed * weights)

    with torch.no_grad():
        return device.timed([both if row["part"] == "products" else layer])


_STREAMED = tuple(2**power for power in range(12, 33, 2))
_COPIED = tuple(2**power for power in range(12, 31, 3))


def streams(device: Device, small: bool) -> Iterator[Case]:
    """Copies and sums in the device's memory; `bytes` are read and written, all operands."""
    for size in _STREAMED[:2] if small else _STREAMED:
        for op, operands in (("copy", 2), ("add", 3)):
            row: Row = {"kind": "stream", "op": op, "bytes": operands * size}
            yield Case(row, partial(_stream, device, op, operands, size))


def _stream(device: Device, op: str, operands: int, size: int) -> Timing:
    def one() -> Call:
        given = [device.draw(size // 2) for _ in range(operands)]
        if op == "copy":
            return partial(given[1].copy_, given[0])
        return partial(torch.add, given[0], given[1], out=given[2])

    return _sets(device, operands * size, True, one)


def copies(device: Device, small: bool) -> Iterator[Case]:
    """Copies between the host and the device; none without one."""
    for size in () if small or not device.on_gpu else _COPIED:
        for way in ("to_device", "to_host"):
            for pinned in (True, False):
                row: Row = {"kind": "copy", "way": way, "pinned": pinned, "bytes": size}
                yield Case(row, partial(_copy, device, way, pinned, size))


def _copy(device: Device, way: str, pinned: bool, size: int) -> Timing:
    host = torch.ones(size, dtype=torch.uint8)
    host = host.pin_memory() if pinned else host
    there = host.to(device.torch)
    to, of = (there, host) if way == "to_device" else (host, there)
    call = partial(to.copy_, of, non_blocking=pinned)
    return device.timed([call], graph=False) if pinned else device.wall(call)


def launches(device: Device, small: bool) -> Iterator[Case]:
    """The smallest kernel: in a graph, launched one by one, and with a wait after each."""
    given = torch.ones(1, device=device.torch)
    call = partial(given.add_, 1)
    for mode in ("eager", "waited") if small else ("graph", "eager", "waited"):
        row: Row = {"kind": "launch", "mode": mode}
        if mode == "waited":
            yield Case(row, partial(device.wall, call))
        else:
            yield Case(row, partial(device.timed, [call], mode == "graph"))


_HOT_SIDE, _HOT_S = 8192, 8.0


def hot(device: Device, small: bool, readings: Readings) -> Iterator[Case]:
    """The same product for seconds, with the clock and the power of each half second: the rate that
    a hot GPU keeps."""
    side, seconds = (64, 0.02) if small else (_HOT_SIDE, _HOT_S)
    row: Row = {"kind": "hot", "m": side, "n": side, "k": side, "format": "bf16"}

    def measured() -> list[Row]:
        call = _product(device, side, side, side, "bf16", False)
        call()
        device.wait()
        found, first = [], time.monotonic()
        while time.monotonic() - first < seconds:
            begin, done = time.monotonic(), 0
            while time.monotonic() - begin < seconds / 16:
                for _ in range(16):
                    call()
                device.wait()
                done += 16
            end = time.monotonic()
            us = 1e6 * (end - begin) / done
            state = readings.between(begin, end)
            found.append(row | {"at_s": round(begin - first, 3), "us": round(us, 4)})
            found[-1]["state"] = state
        return found

    yield Case(row, measured)
