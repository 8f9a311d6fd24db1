"""Conversations: turns that wait for answers, prompts that grow, tables and options."""

from __future__ import annotations

import csv
import random
from pathlib import Path

import pytest
from conftest import Armillary

from armillary.model.decoder_reader import decoder
from armillary.model.files import load_model
from armillary.platform import Platform
from armillary.serve import (
    Choices,
    Engines,
    Layout,
    Lengths,
    Load,
    Precision,
    deploy,
    drawn,
    load_engine,
    serve,
)
from armillary.serve.load import counts, pauses
from armillary.serve.traces import read_load


def engines(load: Load, choices: Choices | None = None) -> Engines:
    return deploy(
        decoder(load_model("llama-3-8b")), Platform.load("dgx-h100"), load_engine("vllm"),
        Layout(), Precision(), longest=load.longest, choices=choices,
    )  # fmt: skip


def talks(concurrency: int | None, seed: int) -> Load:
    return drawn(
        90, Lengths(150, 0.5, 1.5), Lengths(40, 0.5, 1.5), concurrency=concurrency,
        rate=None if concurrency else 3.0, seed=seed, turns=Lengths(4, 0.25, 1.75),
        think=Lengths(2, deviation=0.5),
    )  # fmt: skip


@pytest.mark.parametrize("concurrency", [None, 3])
def test_turns_wait_for_answers_and_prompts_grow(concurrency: int | None) -> None:
    load = talks(concurrency, 5)
    served = serve(engines(load), load)
    begins = 0
    for number, after in enumerate(load.after):
        here, request = served.answers[number], load.requests[number]
        if after is None:
            begins += 1
            assert len(request.prompt) == 1
            continue
        before, think = after
        assert here.arrival == pytest.approx(served.answers[before].end + think / 1e12, abs=1e-9)
        history = load.requests[before].tokens + load.requests[before].output
        assert 75 <= request.tokens - history <= 225
        # Blocks of 16 tokens that are full are kept, up to the last token, which has no keys yet.
        assert here.cached == (history - 1) // 16 * 16
    assert 90 / 7 <= begins <= 90
    spans = conversations(load, [(each.arrival, each.end) for each in served.answers])
    there = [sum(at >= one and at < end for one, end in spans) for at, _ in spans]
    assert max(there) <= (concurrency or len(spans))
    if concurrency:
        assert sum(count == concurrency for count in there) > len(there) / 2


def conversations(load: Load, spans: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """From the first request of each conversation to its last token."""
    found: list[tuple[float, float]] = []
    for after, (begin, end) in zip(load.after, spans, strict=True):
        if after is None:
            found.append((begin, end))
        else:
            found[-1] = (found[-1][0], end)
    return found


def test_without_a_cache_everything_is_computed_again() -> None:
    load = talks(None, 2)
    cold = serve(engines(load, Choices(caching=False)), load)
    warm = serve(engines(load), load)
    assert sum(each.cached for each in cold.answers) == 0
    assert warm.ttft.mean < cold.ttft.mean
    assert warm.itl.most <= cold.itl.most


def test_single_turns_are_requests_by_themselves() -> None:
    plain = drawn(40, Lengths(100), Lengths(9), rate=4, arrival="even")
    single = drawn(40, Lengths(100), Lengths(9), rate=4, arrival="even", turns=Lengths(1))
    one, other = (serve(engines(load), load).answers for load in (plain, single))
    assert [each.latency for each in one] == pytest.approx([each.latency for each in other])


def test_drawn_tables_come_back(tmp_path: Path) -> None:
    """Against an own reading of the rows: turns follow their session, prompts begin with it."""
    draw = random.Random(8)
    for _ in range(6):
        names = [f"s{number}" for number in range(4)]
        rows, so_far = list[str](), dict[str, int]()
        turns = list[tuple[int, int, int, int | None]]()
        for _ in range(30):
            name, output = draw.choice([*names, ""]), draw.randint(1, 30)
            if name in so_far:
                tokens = so_far[name] + draw.randint(1, 50)
                think = draw.randint(0, 9)
                rows.append(f",{tokens},{output},{name},{think}")
                turns.append((tokens, output, so_far[name], think))
            else:
                tokens = draw.randint(1, 50)
                rows.append(f"{draw.randint(0, 99)},{tokens},{output},{name},")
                turns.append((tokens, output, 0, None))
            if name:
                so_far[name] = tokens + output
        path = tmp_path / "t.csv"
        path.write_text("arrival_s,input_tokens,output_tokens,session,think_s\n" + "\n".join(rows))
        load = read_load(str(path))
        found = []
        for request, after in zip(load.requests, load.after or [None] * 30, strict=True):
            history = 0
            if after is not None:
                before = load.requests[after[0]]
                history = before.tokens + before.output
                assert request.prompt[: len(before.prompt)] == before.prompt
                assert request.prompt[len(before.prompt)] == (-1 - after[0], before.output)
            pause = None if after is None else after[1] // 10**12
            found.append((request.tokens, request.output, history, pause))
        assert sorted(found, key=str) == sorted(turns, key=str)
        assert load.arrivals is not None
        heads = [at for at, after in zip(load.arrivals, load.after, strict=True) if after is None]
        assert heads == sorted(heads)
        served = serve(engines(load), load)
        for each, after in zip(served.answers, load.after, strict=True):
            if after is not None:
                assert each.arrival >= served.answers[after[0]].end


HEAD = "arrival_s,input_tokens,output_tokens,session,think_s\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("arrival_s,input_tokens,output_tokens,session\n0,5,5,a\n", "has the column session"),
        ("arrival_s,input_tokens,output_tokens,think_s\n0,5,5,1\n", "has the column think_s"),
        (HEAD + "0,5,5,a,3\n", "first request of a session"),
        (HEAD + "0,5,5,,3\n", "first request of a session"),
        (HEAD + "0,5,5,a,\n,10,5,a,3\n", "10 tokens after a conversation of 10"),
        (HEAD + "0,5,5,a,\n,12,5,a,\n", "invalid time"),
        (HEAD + "0,5,5,a,\n,12,5,a,-1\n", "invalid time"),
        (HEAD + "0,5,5,a,\n,12,5,a,nan\n", "invalid time"),
        (HEAD + "0,5,5,a,\n,12,5,a,1e99\n", "invalid time"),
        (HEAD + "0,5,5,a,\n,x,5,a,1\n", "invalid count"),
        (HEAD + "0,5,5,a,\n3,12,5,a,1\n", "waits for an answer"),
        (HEAD + ",5,5,a,\n", "invalid time"),
        (
            HEAD + "0,1,1,a,\n" + "".join(f",{2 * n + 1},1,a,1\n" for n in range(1, 1003)),
            "too many requests",
        ),
    ],
)
def test_bad_tables_are_named(armillary: Armillary, tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "t.csv").write_text(text)
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--requests", "t.csv")
    run = armillary(*words, cwd=tmp_path)
    assert run.returncode == 2, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr


def test_all_whole_ranges_of_turns_are_taken() -> None:
    draw = random.Random(4)
    for _ in range(300):
        low = draw.randint(1, 1000)
        high = draw.randint(low, 1000)
        found = counts(f"{low}-{high}", "--turns")
        drawn_ = [found.draw(draw) for _ in range(20)]
        assert all(low <= each <= high for each in drawn_)
    assert pauses("0.5", "--think").mean == 0.5
    assert counts("4.7~0.5", "--turns").mean == 4.7


def test_recorded_turns_keep_their_lines(armillary: Armillary, tmp_path: Path) -> None:
    """Rows that arrive in another order than that of the file, one of them left out."""
    text = HEAD + "3,40,9,a,\n0.5,30,8,b,\n7,5,0,,\n,60,9,a,5\n,80,5,a,8\n"
    (tmp_path / "t.csv").write_text(text)
    words = ("serve", "llama-3-8b", "-p", "dgx-h100", "--no-what-if", "--requests", "t.csv")
    run = armillary(*words, "--csv", "o.csv", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    rows = list(csv.DictReader((tmp_path / "o.csv").read_text().splitlines()))
    assert [(row["line"], row["input_tokens"]) for row in rows] == [
        ("3", "30"), ("2", "40"), ("5", "60"), ("6", "80")
    ]  # fmt: skip
    begin = "4 requests of t.csv, turns of 2 conversations, which begin in 2.5 s (0.4 a second)"
    assert begin in " ".join(run.stdout.split())
    assert "prompts share nothing but their conversations" in run.stderr
    run = armillary(*words[:-2], "--concurrency", "2", "--requests", "t.csv", cwd=tmp_path)
    assert "turns of 2 conversations, 2 at a time" in " ".join(run.stdout.split())
    # Drawn requests have no file.
    run = armillary(*words[:-2], "--rate", "9", "--num-requests", "3", "--csv", "-", cwd=tmp_path)
    assert run.stdout.startswith("request,arrival_s,")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--turns", "0"), "invalid counts"),
        (("--turns", "-3"), "invalid counts"),
        (("--turns", "many"), "invalid counts"),
        (("--turns", "nan"), "invalid counts"),
        (("--turns", "6-2"), "invalid counts"),
        (("--turns", "100000"), "invalid counts"),
        (("--turns", "4~99"), "invalid counts"),
        (("--turns", "1024"), "4, 2-6 (uniform) or 4~0.5"),
        (("--turns", "1001"), "whole numbers from 1 to 1,000"),
        (("--turns", "4.7"), "invalid counts: '4.7'"),
        (("--turns", "1.5-4"), "invalid counts"),
        (("--input-tokens", "9.5"), "whole numbers from 1 to 16,777,216"),
        (("--turns", "3", "--think", "nan"), "10, 5-15 (uniform) or 10~0.5"),
        (("--turns", "3", "--think", "1e9"), "mean); from 0 to 1,000,000"),
        (("--turns", ""), "invalid counts"),
        (("--think", "5"), "with --turns"),
        (("--turns", "3", "--think", "-1"), "invalid seconds"),
        (("--turns", "3", "--think", "soon"), "invalid seconds"),
        (("--turns", "3", "--think", "1e9"), "invalid seconds"),
        (("--turns", "3", "--think", "9-1"), "invalid seconds"),
    ],
)
def test_bad_options_are_named(armillary: Armillary, words: tuple[str, ...], said: str) -> None:
    run = armillary("serve", "llama-3-8b", "-p", "dgx-h100", "--rate", "4", *words)
    assert run.returncode == 2, run.stderr
    assert said in run.stderr
    assert "Traceback" not in run.stderr
