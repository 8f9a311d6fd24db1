"""Measured runs of inference engines: `serving.csv.gz`, files of InferenceMAX's web page, and the
requests of one run (`serving_requests.csv.gz`).

2,598 rows of ai-dynamo/aiconfigurator@095f58a5 `silicon_sample.csv`, Apache-2.0, themselves of
SemiAnalysisAI/InferenceX, Apache-2.0: mean time to the first token (TTFT) and of each later one
(TPOT). `conc` requests are there at any time, and ten times that number in all. Lengths are uniform
between 0.8 and 1.0 of the nominal ones. The prefix cache is off.

What the source does not say, found by comparing its own rows:

- The rows are three extracts of one benchmark. A run may be in each of them, with the same times,
  and under DeepSeek-R1 as well as DeepSeek-V3. Each is kept once.
- Where `moe_tp` and `ep` are both above 1, `tp` is their product, also where another extract of
  the same run has `tp 8, moe_tp 1, ep 8`. The run had `ep` GPUs.
- DeepSeek's rows hold runs that draft tokens (MTP) without saying so. The extract of 2026-04-27
  has none: its numbers of requests in flight are those of InferenceX's configurations without
  `spec-decoding`. Other extracts are kept where their image or day has no drafts (`_DRAFTS`).
- Aggregated rows of GB200 have the sum of the pools of a disaggregated run as `tp`.
- Disaggregated rows have the number of workers in the last extract alone.
- Nine rows of gpt-oss on the H100 have 512 requests at a time, and no row has 128 or 256. In each
  of them the time to the first token is 4.2 to 4.8 times the time of the rest of a request. So ten
  waves followed each other: all requests were sent at once, ten times the number that the engine
  took (`max_num_seqs`). That number is not in the row, and 512 was not a limit.
- Rows without a version are of November 2025, and have no layout of experts and of attention. The
  benchmark's configuration of that time has it (`serving_layouts.py`).
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from .published import tables
from .serving_layouts import laid_out

Row = Mapping[str, str]
DUMP = "infx_dump_2026-04-27"
"""The extract that has no drafts, and the workers of pools."""
_DRAFTS = {
    ("trtllm", "1.2.0rc6.post3"): ("2026-02-05", "2026-02-06"),
    ("trtllm", "1.1.0rc2.post2"): ("2026-01-14",),
}
"""Images and days of runs that draft: InferenceX's configurations `dsr1-*-trt-mtp`."""
_MIXED = ("b200", "sglang", "fp8", "0.5.9")
"""DeepSeek with and without drafts on the same day and image."""
_UNLIMITED = ("h100", "vllm", "512")
"""GPU, engine and number of requests of runs whose number of requests is unknown."""
UNLIMITED = "the number of requests at a time is unknown"
"""Why they are not used."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Engines that are alike, as the source lays them out. All are counts."""

    workers: int
    tp: int
    pp: int
    dp: int
    ep: int

    @property
    def gpus(self) -> int:
        """GPUs of all of them."""
        return self.workers * self.tp * self.pp * self.dp


@dataclass(frozen=True, slots=True)
class Run:
    """A measured run. Times are seconds; `None` where the source has none."""

    name: str
    source: str
    day: str
    gpu: str
    model: str
    engine: str
    version: str
    precision: str
    """Number format that the source states: bf16, fp8 or fp4."""
    prompt: int
    """Nominal tokens, the largest."""
    output: int
    concurrency: int
    pools: tuple[Pool, ...]
    """One, or one for prompts and one for outputs."""
    ttft: float | None = None
    tpot: float | None = None
    """Means."""
    rate: float | None = None
    """Tokens a second and GPU, of prompts and outputs."""
    speed: float | None = None
    """Median of the tokens a second of a request."""

    @property
    def gpus(self) -> int:
        """GPUs."""
        return sum(each.gpus for each in self.pools)


@dataclass(frozen=True, slots=True)
class Unused:
    """A row that is not used, and why."""

    name: str
    reason: str


@cache
def measured() -> tuple[Run | Unused, ...]:
    """The shipped rows, in the order of their file."""
    packed = resources.files(__package__).joinpath("serving.csv.gz").read_bytes()
    rows = list(csv.DictReader(io.StringIO(gzip.decompress(packed).decode())))
    return tuple(_runs(rows))


def runs() -> list[Run]:
    """The shipped rows that are used."""
    return [each for each in measured() if isinstance(each, Run)]


def _runs(rows: Iterable[Row]) -> Iterable[Run | Unused]:
    """Rows of the last extract count first: they know most."""
    seen: dict[tuple[object, ...], str] = {}
    for row in sorted(rows, key=lambda row: (row["src"] != DUMP, row["id"])):
        yield _run(row, seen)


def _run(row: Row, seen: dict[tuple[object, ...], str]) -> Run | Unused:
    try:
        return _read(row, seen)
    except ValueError:
        return Unused(row["id"], "a count that is not a number")


def _unknown(row: Row) -> str:
    """Why a row is not used; nothing where it is."""
    if row["mode"] == "agg" and row["system"] == "gb200":
        return "the sum of pools in place of a layout"
    if row["mode"] == "disagg" and not row["p_workers"]:
        return "a disaggregated run without the number of workers"
    if (row["system"], row["backend"], row["conc"]) == _UNLIMITED:
        return UNLIMITED
    return ""


def _read(row: Row, seen: dict[tuple[object, ...], str]) -> Run | Unused:
    name = row["id"]
    if reason := _unknown(row):
        return Unused(name, reason)
    if row["mode"] == "agg":
        pools: tuple[Pool, ...] = (_pool(row, "") if row["backend_version"] else _unsaid(row),)
    else:
        pools = (_pool(row, "p_"), _pool(row, "d_"))
    key = (row["system"], row["backend"], row["precision"], row["isl"], row["osl"], row["conc"])
    found = (*key, row["ttft_ms"], row["tpot_ms"])
    if found in seen:
        return Unused(name, "another extract of the same run")
    seen[found] = name
    if "DeepSeek" in row["model"] and row["src"] != DUMP:
        if row["measured"] in _DRAFTS.get((row["backend"], row["backend_version"]), ()):
            return Unused(name, "drafts tokens without saying so")
        mixed = (row["system"], row["backend"], row["precision"], row["backend_version"])
        if mixed == _MIXED and row["tp"] == "8":
            return Unused(name, "with or without drafts, unsaid")
    return Run(
        name, row["src"], row["measured"], row["system"], row["model"].rpartition("/")[2],
        row["backend"], row["backend_version"], row["precision"], int(row["isl"]),
        int(row["osl"]), int(row["conc"]), pools, _milliseconds(row["ttft_ms"]),
        _milliseconds(row["tpot_ms"]),
    )  # fmt: skip


def _milliseconds(text: str) -> float | None:
    return float(text) / 1e3 if text else None


def _pool(row: Row, pool: str) -> Pool:
    tp, pp, dp, moe_tp, ep = (
        int(row[pool + key] or 1) for key in ("tp", "pp", "adp", "moe_tp", "ep")
    )
    workers = int(row[pool + "workers"]) if pool else 1
    if moe_tp > 1 and ep > 1 and not pool:
        tp, dp = (ep, 1) if dp == 1 else (1, ep)
    return Pool(workers, tp, pp, dp, ep)


def _unsaid(row: Row) -> Pool:
    """The pool of a row without a version."""
    said = _pool(row, "")
    if said.dp > 1 or said.ep > 1:
        return said
    lengths = int(row["isl"]), int(row["osl"])
    return _by_configuration(
        row["backend"], row["system"], row["model"].rpartition("/")[2], row["precision"], lengths,
        int(row["conc"]), said.gpus,
    )  # fmt: skip


def _by_configuration(
    engine: str, gpu: str, model: str, precision: str, lengths: tuple[int, int], busy: int, tp: int
) -> Pool:
    dp, ep = laid_out(engine, gpu, model, precision, lengths, busy, tp)
    return Pool(1, tp // dp, 1, dp, ep)


_MODELS = {
    "Llama 3.3 70B Instruct": "Llama-3.1-70B",
    "gpt-oss 120B": "gpt-oss-120b",
    "DeepSeek R1 0528": "DeepSeek-R1",
}
_MACHINES = {
    ("b200", "Llama"): "vllm", ("b200", "gpt"): "vllm", ("b200", "DeepSeek"): "sglang",
    ("h100", "Llama"): "vllm", ("h100", "gpt"): "vllm",
    ("mi300x", "Llama"): "vllm", ("mi300x", "gpt"): "vllm", ("mi300x", "DeepSeek"): "sglang",
    ("mi355x", "Llama"): "vllm", ("mi355x", "gpt"): "vllm", ("mi355x", "DeepSeek"): "sglang",
}  # fmt: skip
"""Engine of a machine of the page whose name does not end in `_trt`: SemiAnalysisAI/InferenceX
`benchmarks/*_slurm.sh` of October 2025."""
_LENGTHS = {"1k": 1024, "8k": 8192}


def of_table(path: str) -> list[Run | Unused]:
    """Rows of a file with the columns of `serving.csv.gz`, or of the last day in a scrape of
    InferenceMAX's page (leoshan/inference-max-automated-pipeline, no licence: never shipped).

    Raises:
        InputError: a file that is neither, and values that a row can't have.
    """
    table, rows = tables.rows(path, tables.SERVING[:2])
    if table is tables.SERVING[0]:
        return list(_runs(rows))
    last = max(row["scraped"] for row in rows)
    return [_of_page(f"row {number}", row, last) for number, row in enumerate(rows)]


def _number(text: str) -> float | None:
    return float(text) if text else None


def _of_page(name: str, row: Row, day: str) -> Run | Unused:
    if row["scraped"] != day:
        return Unused(name, "another day of the same page")
    gpu, _, trt = row["hw"].partition("_")
    family = row["model"].partition("-")[0].partition(" ")[0]
    engine = "trtllm" if trt else _MACHINES.get((gpu, family))
    if engine is None or row["model"] not in _MODELS:
        return Unused(name, f"the engine of {family} on {gpu} is unknown")
    prompt, _, output = row["isl_osl"].partition("-")
    if prompt not in _LENGTHS or output not in _LENGTHS:
        return Unused(name, f"unknown lengths: {row['isl_osl']}")
    model, lengths, busy = _MODELS[row["model"]], (_LENGTHS[prompt], _LENGTHS[output]), row["conc"]
    pool = _by_configuration(
        engine, gpu, model, row["precision"], lengths, int(busy), int(row["tp"])
    )
    return Run(
        name, "page", row["scraped"], gpu, model, engine, "", row["precision"], *lengths,
        int(busy), (pool,), None, None, _number(row["tput_per_gpu"]),
        _number(row["median_interactivity_tok_s_user"]),
    )  # fmt: skip


BLOCKS = 2588
"""Blocks of 16 tokens that the run of `requests` printed."""


@dataclass(frozen=True, slots=True)
class Timed:
    """A request of one run. Times are seconds, counts are tokens."""

    prompt: int
    output: int
    arrival: float
    ttft: float
    latency: float


@cache
def requests() -> tuple[Timed, ...]:
    """300 requests of Llama 3.1 8B to vLLM 0.19 on an RTX 4090 (max_num_seqs 256,
    max_num_batched_tokens 2048, bf16): casys-kaist/LLMServingSim@5daddb2 `bench/examples`, MIT."""
    packed = resources.files(__package__).joinpath("serving_requests.csv.gz").read_bytes()
    return _timed(csv.DictReader(io.StringIO(gzip.decompress(packed).decode())))


Setup = tuple[str, str, int, int, int]
"""GPU, model, tp, max_num_seqs, max_num_batched_tokens."""


def requests_of(path: str) -> tuple[dict[Setup, tuple[Timed, ...]], int]:
    """Requests of a file with the columns of `serving_requests.csv.gz`, and the number of rows of
    runs in which a request has no time.

    Raises:
        InputError: a file that is none, and values that a row can't have.
    """
    _, rows = tables.rows(path, tables.SERVING[2:3])
    found = dict[Setup, list[Row]]()
    for row in rows:
        sizes = (int(row[key]) for key in ("tp", "max_num_seqs", "max_num_batched_tokens"))
        tp, sequences, tokens = sizes
        key = (row["gpu"], row["model"].rpartition("/")[2], tp, sequences, tokens)
        found.setdefault(key, []).append(row)
    timed, left = dict[Setup, tuple[Timed, ...]](), 0
    for key, group in found.items():
        try:
            timed[key] = _timed(group)
        except ValueError:
            left += len(group)
    return timed, left


def _timed(rows: Iterable[Row]) -> tuple[Timed, ...]:
    found = [
        Timed(
            int(row["input_tokens"]), int(row["output_tokens"]), float(row["arrival_s"]),
            float(row["ttft_s"]), float(row["e2e_s"]),
        )
        for row in rows
    ]  # fmt: skip
    return tuple(sorted(found, key=lambda each: each.arrival))
