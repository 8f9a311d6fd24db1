"""Measured deployments as points of speed and output: files of the examples.

`python -m armillary_lab.measured.points FOLDER` writes them. Rows are those of InferenceX in
ai-dynamo/aiconfigurator (`serving.py`), Apache-2.0."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from .serving import Pool, Run, runs

HEAD = "name,tokens/s/user,tokens/s/GPU"
ENGINES = {"sglang": "SGLang", "trtllm": "TensorRT-LLM", "vllm": "vLLM"}


def _of(
    gpu: str, models: Sequence[str], lengths: tuple[int, int], pools: int, precision: str
) -> Callable[[Run], bool]:
    return lambda run: (
        (run.gpu, run.prompt, run.output, len(run.pools)) == (gpu, *lengths, pools)
        and run.model in models
        and run.precision == precision
    )


FILES: dict[str, Callable[[Run], bool]] = {
    "llama-3.3-70b-h100.csv": _of("h100", ["Llama-3.1-70B"], (1024, 1024), 1, "fp8"),
    "gpt-oss-120b-b200.csv": _of("b200", ["gpt-oss-120b"], (1024, 1024), 1, "fp4"),
    "deepseek-r1-gb200.csv": _of("gb200", ["DeepSeek-R1", "DeepSeek-V3"], (1024, 1024), 2, "fp4"),
}
"""Runs of each file. Models of one file have equal shapes."""


def output(run: Run) -> float:
    """Output tokens a second and GPU. The source has none: those of requests that follow each
    other without a break, of 0.9 of the nominal length."""
    tokens = 0.9 * run.output
    seconds = (run.ttft or 0.0) + (run.tpot or 0.0) * (tokens - 1)
    return run.concurrency * tokens / seconds / run.gpus


def _layout(pool: Pool) -> str:
    parts = [f"{pool.workers} x " if pool.workers > 1 else ""]
    names = (("TP", pool.tp), ("DP", pool.dp), ("EP", pool.ep), ("PP", pool.pp))
    said = " ".join(f"{name} {count}" for name, count in names if count > 1)
    return parts[0] + (said or "TP 1")


def rows(wanted: Callable[[Run], bool]) -> list[str]:
    """Lines of a file, fast ones last."""
    found = [run for run in runs() if run.tpot and wanted(run)]
    found.sort(key=lambda run: (1 / (run.tpot or 1.0), output(run), run.name))
    return [
        f"{ENGINES[run.engine]} {' + '.join(map(_layout, run.pools))} at {run.concurrency}"
        f",{1 / (run.tpot or 1.0):.4g},{output(run):.4g}"
        for run in found
    ]


def text(name: str) -> str:
    """The content of a file."""
    return "\n".join([HEAD, *rows(FILES[name])]) + "\n"


def main(arguments: Iterable[str]) -> int:
    """Writes the files into a folder."""
    (folder,) = arguments
    for name in FILES:
        (Path(folder) / name).write_text(text(name), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
