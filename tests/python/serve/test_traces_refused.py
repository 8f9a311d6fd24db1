"""Recorded loads that can't be read: each fault has its line, its column or key, and a way out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from types import ModuleType

import pytest
import serve_targets

from armillary.errors import InputError
from armillary.serve.traces import read_load, recorded, source

SAMPLES = {name: data.decode() for name, data in serve_targets.SAMPLES.items()}

CHANGED: dict[str, list[tuple[str, str, str]]] = {
    "azure": [
        ("374", "many", "line 2: ContextTokens: invalid count: 'many'"),
        ("374", "-374", "line 2: ContextTokens: invalid count: '-374'"),
        ("374", "3_74", "line 2: ContextTokens: invalid count: '3_74'"),
        ("374", "99999999", "line 2: ContextTokens: invalid count"),
        ("109", "1.5", "line 3: GeneratedTokens: invalid count: '1.5'"),
        ("109", "109,7", "line 3: has 4 values (allowed: 3"),
        ("-16 18:15:50", "-31 18:15:50", "line 3: TIMESTAMP: invalid time"),
        ("18:15:50", "28:15:50", "line 3: TIMESTAMP: invalid time"),
        ("50.9951690", "50.9951690+00:00", "line 3: TIMESTAMP: another time zone"),
        ("2023-11-17 00:00:01", "1700000000", "line 4: TIMESTAMP: invalid time"),
        (",GeneratedTokens", ",Generated", "line 1: lacks the column GeneratedTokens"),
        ("ContextTokens", "NumImages,ContextTokens", "line 1: NumImages: requests have images"),
        ("GeneratedTokens", "GeneratedTokens,User", "line 1: unknown column 'User'"),
    ],
    "burstgpt": [
        ("\n5,", "\nsoon,", "line 2: Timestamp: invalid time: 'soon'"),
        ("\n5,", "\n-5,", "line 2: Timestamp: invalid time: '-5'"),
        ("\n5,", "\nnan,", "line 2: Timestamp: invalid time: 'nan'"),
        ("\n5,", "\n1e300,", "line 2: Timestamp: invalid time"),
        ("472,18", ",18", "line 2: Request tokens: invalid count: ''"),
        ("472,18", "472,0x18", "line 2: Response tokens: invalid count"),
        ("472,18", "472,-18", "line 2: Response tokens: invalid count"),
        ("472,18,490", "472,18", "line 2: has 5 values"),
        ("Log Type", "User", "line 1: unknown column 'User'"),
        ("Model", "Timestamp", "line 1: has the column 'Timestamp' twice"),
        ("118.5,GPT-4,417,276", "118.5,GPT-4,4 17,276", "line 3: Request tokens: invalid count"),
    ],
    "plain": [
        ("0.5,100", "x,100", "line 2: arrival_s: invalid time: 'x'"),
        ("0.5,100", "inf,100", "line 2: arrival_s: invalid time: 'inf'"),
        ("0.5,100", "0.5,0", "line 2: input_tokens: invalid count: '0'"),
        ("100,7", "100,seven", "line 2: output_tokens: invalid count"),
        ("7,0,chat", "7,high,chat", "line 2: priority: invalid priority: 'high'"),
        ("0.75,64,9,-1,chat,64", "0.75,64,9,-1,chat,65", "line 3: prefix_tokens: a prefix of 65"),
        ("0.75,64,9,-1,chat,64", "0.75,64,9,-1,,64", "line 3: prefix_tokens: '64' tokens of a"),
        ("0.75,64,9,-1,chat,64", "0.75,64,9,-1,chat,", "line 3: prefix_tokens: invalid count"),
        ("0.5,2", "0.5,0.25", "line 3: e2e_s: 0.25 s, before the first token"),
        ("0.5,2", "0.5,-2", "line 3: e2e_s: invalid time"),
        (",e2e_s", ",end_s", "line 1: unknown column 'end_s'"),
        (",prefix_tokens", ",t_s", "line 1: has the column prefix, but not prefix_tokens"),
        ("priority", "t_s", "line 1: has both arrival_s and t_s"),
        ("input_tokens", "tokens", "has the columns of no known format"),
    ],
    "mooncake": [
        ("1100", "-1", "line 1: input_length: invalid count: -1"),
        ("1100", "1100.5", "line 1: input_length: invalid count: 1100.5"),
        ("1100", '"1100 tokens"', "line 1: input_length: invalid count"),
        ("1100", "true", "line 1: input_length: invalid count: True"),
        ("1100", "2100", "line 1: hash_ids: 3 blocks of 512 for 2100 tokens"),
        ("52", "null", "line 1: output_length: is missing"),
        ('"timestamp": 0', '"timestamp": -5', "line 1: timestamp: invalid time: -5"),
        ('"timestamp": 0', '"timestamp": NaN', "line 1: timestamp: invalid time: nan"),
        ('"timestamp": 3000.5', '"turn": 1', "line 3: timestamp: is not in all lines"),
        ('"timestamp": 3000.5', '"delay": 9', "line 3: delay: the time follows from the answer"),
        ("[46, 47, 50]", "46", "line 2: hash_ids: 46 is not a list"),
        ("[46, 47, 50]", '[46, 47, "50"]', "line 2: hash_ids: '50' is not a whole number"),
        ("[46, 47, 50]", f"[46, 47, {2**63}]", "line 2: hash_ids: 9223372036854775808 is not"),
        ("[46, 47, 50]}", "[46, 47, 50]", "line 2: is not JSON"),
        ('"input_length": 600', '"text_input": "Hi"', "line 3: text_input: is a text"),
        ('"input_length": 600', '"length": 600', "line 3: unknown key 'length'"),
    ],
    "aiperf": [
        ('"request_start_ns": 1000000000000000000', '"request_start_ns": 1.5', "line 2: request_s"),
        ('"request_start_ns": 1000000000000000000', '"start": 1', "request_start_ns: invalid time"),
        ('"value": 550, "unit": "tokens"', '"value": 0, "unit": "tokens"', "invalid count: 0"),
        ('"value": 550, "unit": "tokens"', '"value": 5.5, "unit": "tokens"', "invalid count: 5.5"),
        ('"value": 550, "unit": "tokens"', '"value": 550, "unit": "words"', "invalid count"),
        ('"value": 9, "unit": "tokens"', '"value": "x", "unit": "tokens"', "output_sequence_len"),
        ('"input_sequence_length"', '"isl"', "line 1: input_sequence_length: invalid count: None"),
        ('"unit": "ms"', '"unit": "min"', "time_to_first_token: unknown unit: 'min'"),
        ('"unit": "ms"', '"unit": ["ms"]', "time_to_first_token: unknown unit"),
        ('"value": 250.0', '"value": -250.0', "time_to_first_token: invalid time"),
        ('"metrics": {', '"metrics": 5, "more": {', "line 1: metrics: 5 is not an object"),
        ('}\n{"metadata"', '}\n{"metadata', "line 2: is not JSON"),
    ],
    "llmservingsim": [
        ('"input_toks": 4', '"input_toks": 5', "line 1: input_tok_ids: 4 tokens for input_toks 5"),
        ('"input_toks": 4', '"input_toks": 0', "line 1: input_toks: invalid count: 0"),
        ('"input_toks": 4', '"input_toks": []', "line 1: input_toks: invalid count: []"),
        ('"output_toks": 5', '"output_toks": -5', "line 1: output_toks: invalid count: -5"),
        ('"output_toks": 5', '"outputs": 5', "line 1: output_toks: is missing"),
        ('"arrival_time_ns": 900', '"arrival_time_ns": 9.5', "line 2: arrival_time_ns: invalid"),
        ('"arrival_time_ns": 900', '"arrival_time_ns": -9', "line 2: arrival_time_ns: invalid"),
        ('"arrival_time_ns": 900', '"arrival_time": 9', "line 2: arrival_time_ns: is missing"),
        ("[1, 2, 9]", "[1, 2, -9]", "line 2: input_tok_ids: -9 is not a token"),
        ("[1, 2, 9]", '"1 2 9"', "line 2: input_tok_ids: '1 2 9' for input_toks 3"),
        ("[1, 2, 9]}", '[1, 2, 9], "sub_requests": []}', "line 2: sub_requests: is a session"),
        ("[1, 2, 9]}", "[1, 2, 9]}]", "line 2: is not JSON"),
    ],
    "llmservingsim bench": [
        ('"queued_ts": 27.5', '"queued_ts": 28.75', "line 1: first_token_ts: queued at 28.75 s"),
        ('"queued_ts": 27.5', '"queued_ts": "now"', "line 1: queued_ts: invalid time: 'now'"),
    ],
    "vllm": [
        ('"input_lens"', '"lens"', "input_lens: is missing: no lengths of requests"),
        ('"output_lens"', '"outputs"', "output_lens: is missing"),
        ('"input_lens": [\n  20', '"input_lens": [\n  "a"', "request 0: input_lens: invalid count"),
        ('"input_lens": [\n  20', '"input_lens": [\n  0', "request 0: input_lens: invalid"),
        ('"output_lens": [', '"output_lens": [1, ', "output_lens: has 4 values for 3 requests"),
        ('"output_lens": [\n  3', '"output_lens": [\n  3.5', "request 0: output_lens: invalid"),
        ('"start_times": [\n  100.5', '"start_times": [\n  -1', "request 0: start_times: invalid"),
        ('"ttfts": [\n  0.25', '"ttfts": [\n  null', "request 0: ttfts: invalid time: None"),
        ("0.125,", '"x",', "request 0: itls: has an invalid time"),
        ("0.125,", "-9,", "request 0: itls: has an invalid time"),
        ('"itls": [', '"itls": [7, ', "itls: has 4 values for 3 requests"),
        ('"errors": [', '"errors": "none", "more": [', "errors: 'none' is not a list"),
        ('"max_concurrency": null', '"max_concurrency": 0', "the run: max_concurrency: invalid"),
        ('"burstiness": 1.0', '"burstiness": NaN', "is nan"),
        ('"burstiness": 1.0', '"burstiness": [1.0', "is not JSON"),
    ],
}  # fmt: skip
"""By sample: what is replaced (the first time it stands there), by what, and the message."""


@pytest.mark.parametrize("name", CHANGED)
def test_faults_are_named_with_their_place(name: str, tmp_path: Path) -> None:
    path = tmp_path / "load"
    path.write_text(SAMPLES[name], encoding="utf-8")
    read_load(path)
    for before, after, said in CHANGED[name]:
        assert before in SAMPLES[name], before
        path.write_text(SAMPLES[name].replace(before, after, 1), encoding="utf-8")
        with pytest.raises(InputError) as caught:
            read_load(path)
        problems = caught.value.problems
        assert said in "\n".join(map(str, problems)), (before, after, str(caught.value))
        assert all(each.file == str(path) and each.help for each in problems)


WHOLE: dict[str, tuple[bytes, str]] = {
    "nothing": (b"", "is empty"),
    "blank lines": (b"\n\n", "is empty"),
    "a header alone": (b"input_tokens,output_tokens,t_s\n", "has no requests"),
    "an image": (b"\x89PNG\r\n\x1a\n\x00\x00", "line 1: is not text"),
    "bytes in a line": (b"input_tokens,output_tokens\n5,\xff\n", "line 2: is not UTF-8 text"),
    "an open quote": (b'input_tokens,output_tokens\n5,"6\n', "is not CSV"),
    "a cut archive": (gzip.compress(serve_targets.SAMPLES["azure"])[:-20], "can't be unpacked"),
    "no archive": (b"\x1f\x8bnothing", "can't be unpacked"),
    "a number": (b"[1]\n", "has the keys of no known format"),
    "another CSV": (b"a,b\n1,2\n", "line 1: has the columns of no known format: a, b"),
    "other JSON": (b'{"a": 1}\n', "line 1: has the keys of no known format: a"),
    "ShareGPT": (
        b'[\n{"id": "a", "conversations": [{"from": "human", "value": "Hi"}]}\n]\n',
        "holds texts, whose numbers of tokens are not known",
    ),
    "a data set of vLLM": (
        b'{"prompt": "What is the capital?", "output_tokens": 10}\n',
        "holds texts, whose numbers of tokens are not known",
    ),
    "inputs of AIPerf": (
        b'{"data": [{"session_id": "a", "payloads": [{"messages": []}]}]}',
        "holds texts or statistics, not the tokens of requests",
    ),
    "an export of genai-perf": (
        b'{"service_kind": "openai", "experiments": [{"requests": []}], "version": "0"}',
        "holds texts or statistics, not the tokens of requests",
    ),
    "a result of vLLM without details": (
        b'{"request_throughput": 5.0, "total_input_tokens": 60, "max_concurrency": null}',
        "input_lens: is missing: no lengths of requests "
        "(allowed: vllm bench serve --save-result --save-detailed)",
    ),
    "two results of vLLM": (
        serve_targets.SAMPLES["vllm loop"] * 2,
        "line 2: has the results of several runs",
    ),
    "two runs in a table": (
        b"run,input_tokens,output_tokens,arrival_s\na,1,1,0\nb,1,1,1\n",
        "line 3: run: is of another run ('b')",
    ),
    "nesting": (b'{"input_lens": ' + b"[" * 5000, "is nested too deeply"),
    "failures alone": (
        json.dumps({"input_lens": [5], "output_lens": [0], "start_times": [1.0]}).encode(),
        "has no requests",
    ),
}


@pytest.mark.parametrize("name", WHOLE)
def test_files_of_another_kind_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / "load"
    path.write_bytes(WHOLE[name][0])
    with pytest.raises(InputError) as caught:
        read_load(path)
    assert WHOLE[name][1] in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"limit": 0}, "limit: invalid value: 0"),
        ({"rate": 0.0}, "rate: invalid value: 0.0"),
        ({"rate": float("nan")}, "rate: invalid value: nan"),
        ({"scale": -1.0}, "scale: invalid value: -1.0"),
        ({"concurrency": 0}, "concurrency: invalid value: 0"),
        ({"rate": 2.0, "scale": 2.0}, "rate and scale both change the times"),
        ({"rate": 2.0, "concurrency": 2}, "rate: a closed loop has no times to change"),
        ({"scale": 2.0, "concurrency": 2}, "scale: a closed loop has no times to change"),
        ({"rate": 2.0, "limit": 1}, "all requests arrive at once"),
    ],
)
def test_settings_out_of_range_are_refused(
    given: dict[str, float], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "load"
    path.write_text(SAMPLES["azure"], encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_load(path, **given)  # type: ignore[arg-type]
    assert said in str(caught.value)


def test_folders_and_missing_files_are_refused(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "missing"):
        with pytest.raises(InputError, match="can't be read"):
            read_load(path)


def test_all_faults_of_a_file_come_at_once(tmp_path: Path) -> None:
    """Up to ten: a file of another kind has one in each line."""
    path = tmp_path / "load"
    path.write_text("input_tokens,output_tokens\n" + "x,1\n" * 3, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_load(path)
    assert [each.place for each in caught.value.problems] == [
        f"line {line}: input_tokens" for line in (2, 3, 4)
    ]
    path.write_text("input_tokens,output_tokens\n" + "x,1\n" * 30, encoding="utf-8")
    with pytest.raises(InputError) as caught:
        read_load(path)
    assert len(caught.value.problems) == 10


@pytest.mark.parametrize(
    ("module", "name", "most", "said"),
    [
        (source, "LONGEST_LINE", 30, "line 1: is longer than 0 MiB"),
        (source, "MOST_BYTES", 80, "has more than 0 GiB"),
        (source, "MOST_COLUMNS", 2, "line 1: has 3 columns"),
        (recorded, "MOST_REQUESTS", 1, "has more than 1 requests (allowed: a part of it: --limit"),
    ],
)
def test_files_are_read_within_bounds(
    module: ModuleType,
    name: str,
    most: int,
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An archive that unpacks to more than the bound is refused as well."""
    monkeypatch.setattr(module, name, most)
    path = tmp_path / "load"
    for data in (SAMPLES["azure"].encode(), gzip.compress(SAMPLES["azure"].encode())):
        path.write_bytes(data)
        with pytest.raises(InputError) as caught:
            read_load(path)
        assert said in str(caught.value)


def test_large_documents_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "MOST_DOCUMENT", 100)
    path = tmp_path / "load"
    path.write_bytes(serve_targets.SAMPLES["vllm"])
    with pytest.raises(InputError, match="is larger than 0 MiB"):
        read_load(path)
