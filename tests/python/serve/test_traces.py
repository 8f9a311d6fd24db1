"""Recorded loads: drawn requests written in each format come back, and caches find of a trace with
hashes what an independent count finds."""

from __future__ import annotations

import datetime
import gzip
import json
import random
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
import serve_targets
from conftest import ROOT
from thorough import usually

from armillary import _core
from armillary.errors import InputError
from armillary.serve.load import Load
from armillary.serve.traces import read_load
from armillary.serve.traces.prefixes import Prefixes

SHARED = ROOT.parent / "shared/truth"
Drawn = list[tuple[int, int, int]]
"""Requests as ns of the arrival, prompt and output in tokens."""


def drawn(source: random.Random, step: int) -> Drawn:
    """Requests whose arrivals are multiples of `step` ns, in their order."""
    count = source.randrange(1, 30)
    times = sorted(source.randrange(10**6) * step for _ in range(count))
    return [(time, source.randrange(1, 9000), source.randrange(1, 900)) for time in times]


def lines(rows: Iterable[object]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def azure(requests: Drawn) -> str:
    start = datetime.datetime(2023, 11, 16, 23, 59, 58)
    rows = ["TIMESTAMP,ContextTokens,GeneratedTokens"]
    for time, prompt, output in requests:
        at = start + datetime.timedelta(seconds=time // 10**9)
        rows.append(f"{at:%Y-%m-%d %H:%M:%S}.{time % 10**9 // 100:07d},{prompt},{output}")
    return "\n".join(rows) + "\n"


def azure_2024(requests: Drawn) -> str:
    text = azure(requests)
    return "\n".join(
        f"{row.split(',')[0][:-1]}+00:00,{row.split(',', 1)[1]}" if "2023" in row else row
        for row in text.splitlines()
    )


def burstgpt(requests: Drawn) -> str:
    head = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
    return head + "".join(f"{t / 1e9},GPT-4,{p},{o},{p + o},API log\n" for t, p, o in requests)


def plain(requests: Drawn) -> str:
    rows = (f"{o},{p},{t / 1e9}\n" for t, p, o in requests)
    return "output_tokens,input_tokens,arrival_s\n" + "".join(rows)


def mooncake(requests: Drawn) -> str:
    return lines(
        {"timestamp": t / 1e6, "input_length": p, "output_length": o} for t, p, o in requests
    )


def llmservingsim(requests: Drawn) -> str:
    return lines({"input_toks": p, "output_toks": o, "arrival_time_ns": t} for t, p, o in requests)


def aiperf(requests: Drawn) -> str:
    """In the order in which answers end: another one than that of arrivals."""

    def metric(value: object, unit: str) -> dict[str, object]:
        return {"value": value, "unit": unit}

    rows = [
        {"metadata": {"request_start_ns": 10**18 + t, "benchmark_phase": "profiling"},
         "metrics": {"input_sequence_length": metric(p, "tokens"),
                     "output_sequence_length": metric(o, "tokens"),
                     "time_to_first_token": metric(p / 8, "ms"),
                     "request_latency": metric(p / 8 + o, "ms")}, "error": None}
        for t, p, o in requests
    ]  # fmt: skip
    return lines(reversed(rows)) if len({t for t, _, _ in requests}) == len(rows) else lines(rows)


def vllm(requests: Drawn) -> str:
    result = {
        "request_rate": 5.0, "max_concurrency": None,
        "input_lens": [p for _, p, _ in requests], "output_lens": [o for _, _, o in requests],
        "start_times": [123 + t / 1e9 for t, _, _ in requests],
        "ttfts": [p / 8192 for _, p, _ in requests],
        "itls": [[0.25] * (o - 1) for _, _, o in requests], "errors": [""] * len(requests),
    }  # fmt: skip
    return json.dumps(result)


FORMATS: dict[str, tuple[Callable[[Drawn], str], int]] = {
    "azure": (azure, 100), "azure 2024": (azure_2024, 1000), "burstgpt": (burstgpt, 10**6),
    "plain": (plain, 10**6), "mooncake": (mooncake, 10**6), "llmservingsim": (llmservingsim, 1),
    "aiperf": (aiperf, 1), "vllm": (vllm, 10**6),
}  # fmt: skip
"""What writes each format, and ns of the step of its times."""


def of(load: Load) -> list[tuple[int, int, int]]:
    """Requests of a load as ns after the first arrival, prompt and output."""
    assert load.arrivals is not None
    pairs = zip(load.arrivals, load.requests, strict=True)
    return [(round(time / 1000), each.tokens, each.output) for time, each in pairs]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("seed", range(usually(3, 100)))
def test_drawn_requests_come_back(name: str, seed: int, tmp_path: Path) -> None:
    write, step = FORMATS[name]
    requests = drawn(random.Random(f"{name} {seed}"), step)
    path = tmp_path / "load"
    text = write(requests).encode()
    path.write_bytes(gzip.compress(text) if seed % 2 else text)
    load = read_load(path)
    wanted = [(time - requests[0][0], prompt, output) for time, prompt, output in requests]
    assert of(load) == wanted
    contents = [content for each in load.requests for content, _ in each.prompt]
    assert len({*contents}) == len(contents), (
        "prompts that share nothing have contents of their own"
    )
    count = random.Random(seed).randrange(1, len(wanted) + 1)
    assert of(read_load(path, limit=count)) == wanted[:count]


def test_measured_times_stay_with_their_requests(tmp_path: Path) -> None:
    """Starts are in another order than the file's, and one request failed."""
    path = tmp_path / "load"
    source = random.Random(4)
    requests = drawn(source, 10**6)
    source.shuffle(requests)
    for name in ("vllm", "aiperf"):
        text = FORMATS[name][0](requests)
        if name == "vllm":
            found = json.loads(text)
            found["errors"][0] = "refused"
            text, left = json.dumps(found), requests[1:]
        else:
            left = requests
        path.write_text(text, encoding="utf-8")
        load = read_load(path)
        assert len(load.requests) == len(load.measured) == len(left)
        for each, (first, end) in zip(load.requests, load.measured, strict=True):
            by_name = {"vllm": (each.tokens / 8192, 0.25 * (each.output - 1)),
                       "aiperf": (each.tokens / 8000, each.output / 1000)}  # fmt: skip
            assert (first, end - first) == pytest.approx(by_name[name], abs=1e-9)


def test_a_closed_loop_stays_one(tmp_path: Path) -> None:
    path = tmp_path / "load"
    path.write_bytes(serve_targets.SAMPLES["vllm loop"])
    load = read_load(path)
    assert (load.arrivals, load.concurrency) == (None, 2)
    assert load.measured == ((0.25, 0.5), (0.5, 0.75))
    assert "requests that failed are left out: 1" in load.notes
    assert read_load(path, concurrency=7).concurrency == 7
    path.write_bytes(serve_targets.SAMPLES["azure"])
    loop = read_load(path, concurrency=3)
    assert (loop.arrivals, loop.concurrency) == (None, 3)


def test_a_table_has_prefixes_priorities_and_times(tmp_path: Path) -> None:
    path = tmp_path / "load"
    path.write_bytes(serve_targets.SAMPLES["plain"])
    load = read_load(path)
    one, two, three = load.requests
    assert one.prompt[0] == (two.prompt[0][0], 64)
    assert [each.tokens for each in load.requests] == [100, 64, 30]
    assert len(three.prompt) == 1
    assert three.prompt[0][0] not in {one.prompt[0][0], one.prompt[1][0]}
    assert [each.priority for each in load.requests] == [0, -1, 3]
    assert load.measured == ((0.25, 1.5), (0.5, 2.0), (0.1, 0.1))


@pytest.mark.parametrize("seed", range(usually(5, 100)))
def test_rate_and_scale_stretch_the_times(seed: int, tmp_path: Path) -> None:
    source = random.Random(seed)
    requests = [*drawn(source, 10**6), (10**15, 5, 5), (2 * 10**15, 5, 5)]
    path = tmp_path / "load"
    path.write_text(plain(requests), encoding="utf-8")
    plainly = read_load(path).arrivals
    rate, scale = source.uniform(0.1, 50), source.uniform(0.1, 10)
    faster = read_load(path, rate=rate).arrivals
    assert plainly is not None
    assert faster is not None
    assert (len(faster) - 1) / (faster[-1] / 1e12) == pytest.approx(rate)
    factor = faster[-1] / plainly[-1]
    assert faster == pytest.approx([time * factor for time in plainly], rel=1e-9, abs=2)
    assert read_load(path, scale=scale).arrivals == tuple(round(time * scale) for time in plainly)


def drawn_blocks(source: random.Random, unit: int) -> list[tuple[list[int], int]]:
    """Prompts of blocks with their tokens. Some begin as earlier ones do; a block's name stands for
    all before it, but for those of another kind, whose names say their own tokens alone."""
    found: list[tuple[list[int], int]] = []
    names = 0
    for _ in range(source.randrange(2, 25)):
        blocks: list[int] = []
        if found and source.random() < 0.7:
            earlier = source.choice(found)[0]
            blocks = earlier[: source.randrange(len(earlier) + 1)]
        for _ in range(source.randrange(0 if blocks else 1, 6)):
            names += 1
            blocks = [*blocks, names if source.random() < 0.8 else source.randrange(4) + 10**6]
        found.append((blocks, len(blocks) * unit - source.choice([0, source.randrange(unit)])))
    return found


def equal_tokens(one: tuple[list[int], int], other: tuple[list[int], int], unit: int) -> int:
    """Tokens with which two prompts begin alike."""
    pairs = zip(one[0], other[0], strict=False)
    same = next((n for n, (a, b) in enumerate(pairs) if a != b), min(len(one[0]), len(other[0])))
    return min(same * unit, one[1], other[1])


def pieces_alike(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> int:
    """The same of two rows of pieces: by what pieces mean, not by how they are made."""
    alike = 0
    for (content, length), (again, size) in zip(one, other, strict=False):
        if content != again:
            return alike
        alike += min(length, size)
        if length != size:
            return alike
    return alike


@pytest.mark.parametrize("seed", range(usually(40, 2000)))
def test_pieces_begin_alike_where_blocks_do(seed: int) -> None:
    """For every pair of prompts, and the same prompt has the same pieces later."""
    source = random.Random(seed)
    unit = source.choice([1, 16, 512])
    prompts = [(blocks, max(1, tokens)) for blocks, tokens in drawn_blocks(source, unit)]
    contents = iter(range(10**6))
    tree = Prefixes(unit, lambda: next(contents))
    pieces = [tree.pieces(*prompt) for prompt in prompts]
    assert pieces == [tree.pieces(*prompt) for prompt in prompts]
    for each, (_, tokens) in zip(pieces, prompts, strict=True):
        assert sum(length for _, length in each) == tokens
        assert all(length > 0 for _, length in each)
    for one, its in zip(prompts, pieces, strict=True):
        for other, theirs in zip(prompts, pieces, strict=True):
            wanted = equal_tokens(one, other, unit)
            assert pieces_alike(its, theirs) == wanted, (one, other, its, theirs)


def engine(block: int, longest: int) -> dict[str, Any]:
    """An engine whose cache holds everything; a step takes 1 ms."""
    return {
        "engines": 1, "ranks": 1, "stages": 1, "block": block, "blocks": 2**17, "sequences": 8,
        "tokens": 8192, "longest": longest, "chunked": True, "long_prefill": 0, "priority": False,
        "caching": True, "asynchronous": False, "drafts": 0, "lookahead": 0,
        "recomputes_last": False, "whole": True, "acceptance": [], "graphs": [],
        "mixed_graphs": False, "eager": 0.0, "overlapped": False,
        "terms": [{"name": "step", "kind": "rows", "at": [1.0, 2.0], "columns": [],
                   "seconds": [1e-3, 1e-3], "window": 0, "host": False}],
    }  # fmt: skip


def cached_tokens(load: Load, block: int) -> list[int]:
    rows: list[tuple[list[tuple[int, int]], int, int]] = [
        ([*each.prompt], each.output, each.priority) for each in load.requests
    ]
    assert load.arrivals is not None
    found = _core.serve(
        engine(block, load.longest), None, "round_robin", 8, rows, [*load.arrivals], 0, None
    )
    return [cached for _, cached, _, _ in found.notes()]


@pytest.mark.parametrize("kind", ["mooncake", "bailian"])
@pytest.mark.parametrize("seed", range(usually(6, 200)))
def test_an_unbounded_cache_finds_what_a_count_finds(kind: str, seed: int, tmp_path: Path) -> None:
    """In tokens: of blocks of the engine, those that an earlier prompt has in full, less the last
    token, which is always computed. In blocks of the trace: names that were there before."""
    source = random.Random(f"{kind} {seed}")
    unit = 512 if kind == "mooncake" else 16
    prompts = [(each, max(1, tokens)) for each, tokens in drawn_blocks(source, unit)]
    more = {"chat_id": 1} if kind == "bailian" else {}
    times = [number * (10**6 if kind == "mooncake" else 10**3) for number in range(len(prompts))]
    rows = [
        {"timestamp": time, "input_length": tokens, "output_length": 3, "hash_ids": blocks} | more
        for time, (blocks, tokens) in zip(times, prompts, strict=True)
    ]
    path = tmp_path / "load.jsonl"
    path.write_text(lines(rows), encoding="utf-8")
    load = read_load(path)
    for block in (16, 64, unit):
        wanted = []
        for number, prompt in enumerate(prompts):
            alike = (equal_tokens(prompt, each, unit) for each in prompts[:number])
            most = (prompt[1] - 1) // block
            wanted.append(min(max(alike, default=0) // block, most) * block)
        assert cached_tokens(load, block) == wanted
    seen: set[tuple[int, ...]] = set()
    for (blocks, tokens), cached in zip(prompts, cached_tokens(load, unit), strict=True):
        full = [tuple(blocks[: number + 1]) for number in range(tokens // unit)]
        hits = sum(prefix in seen for prefix in full)
        assert cached == min(hits, (tokens - 1) // unit) * unit
        seen |= {*full}


def test_tokens_of_llmservingsim_share_prefixes(tmp_path: Path) -> None:
    path = tmp_path / "load"
    path.write_bytes(serve_targets.SAMPLES["llmservingsim"])
    one, two = read_load(path).requests
    assert pieces_alike(one.prompt, two.prompt) == 2


@pytest.mark.skipif(not SHARED.exists(), reason="the shared traces are not here")
@pytest.mark.parametrize(("name", "count"), [("code", 8819), ("conv", 19366)])
def test_traces_of_azure_are_read_whole(name: str, count: int) -> None:
    load = read_load(SHARED / f"request_traces/azure2023_{name}.csv.gz")
    with gzip.open(SHARED / f"request_traces/azure2023_{name}.csv.gz", "rt") as stream:
        rows = [row.split(",") for row in stream.read().splitlines()[1:]]
    assert len(load.requests) == count == len(rows)
    assert sum(each.tokens for each in load.requests) == sum(int(row[1]) for row in rows)
    assert sum(each.output for each in load.requests) == sum(int(row[2]) for row in rows)


@pytest.mark.skipif(not SHARED.exists(), reason="the shared measurements are not here")
def test_measurements_of_llmservingsim_have_times() -> None:
    """Its published mean time to the first token of vLLM is 65,456.6 ms."""
    load = read_load(SHARED / "serving/llmservingsim_requests.csv")
    assert len(load.measured) == 300
    mean = sum(first for first, _ in load.measured) / 300
    assert mean == pytest.approx(65.4566, rel=1e-3)


def test_tokens_after_the_last_block_are_their_own(tmp_path: Path) -> None:
    """Of 40 tokens in Bailian's blocks of 16, two blocks have names."""
    path = tmp_path / "load"
    path.write_bytes(serve_targets.SAMPLES["bailian"] * 2)
    first, again, *others = (each.prompt for each in read_load(path).requests)
    assert first == again
    for each in others:
        assert pieces_alike(first, each) == 32
        assert [length for _, length in each] == [32, 8]
    assert pieces_alike(*others) == 32


def test_a_file_without_times_needs_a_loop(tmp_path: Path) -> None:
    path = tmp_path / "load.csv"
    path.write_text("input_tokens,output_tokens\n5,6\n", encoding="utf-8")
    with pytest.raises(InputError, match="has no times of arrival"):
        read_load(path)
    assert read_load(path, concurrency=2).said == "1 request of load.csv, 2 at a time"
