"""Names of the Hub and of other versions mean the presets of equal shape."""

from __future__ import annotations

from pathlib import Path

import pytest

from armillary.errors import InputError
from armillary.model.files import MODELS, load_model, models
from armillary.model.other_names import VERSIONS, preset_of
from armillary.sweep.source import located
from armillary.workload import is_model


@pytest.mark.parametrize(
    ("name", "preset"),
    [
        ("llama-3-70b", "llama-3-70b"),
        ("llama-3.3-70b", "llama-3-70b"),
        ("meta-llama/Llama-3.3-70B-Instruct", "llama-3-70b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
        ("Qwen/Qwen3-32B", "qwen3-32b"),
        ("Qwen/Qwen2.5-72B-Instruct", "qwen2.5-72b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("google/gemma-3-27b-it", "gemma-3-27b"),
        ("mistralai/Mistral-7B-Instruct-v0.3", "mistral-7b"),
        ("meta-llama/Llama-2-7b-hf", "llama-2-7b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama-2-7b"),
        ("moonshotai/Kimi-K2-Thinking", "kimi-k2-thinking"),
        ("LLAMA-3-8B", "llama-3-8b"),
    ],
)
def test_a_published_name_is_a_preset(name: str, preset: str) -> None:
    assert load_model(name).name == preset
    assert load_model(name) == load_model(preset)
    assert is_model(name)


@pytest.mark.parametrize(
    "name",
    [
        "someone/llama-3-8b",
        "nvidia/Llama-3.1-8B-Instruct-FP8",
        "meta-llama/Llama-3.1-8B-Instruct-FP8",
        "meta-llama/",
        "/llama-3-8b",
        "meta-llama/x/llama-3-8b",
        "deepseek-ai/DeepSeek-R1-Distill-Llama-7B",
        "llama-3-8b-instruct-gguf",
        "-it",
        "",
    ],
)
def test_a_name_that_says_nothing_about_the_shape_is_refused(name: str) -> None:
    assert preset_of(name, models()) is None
    with pytest.raises(InputError, match="no such model"):
        load_model(name)


def test_every_version_has_a_preset() -> None:
    """And is not the name of a preset itself, which would come first."""
    assert set(VERSIONS.values()) <= set(models())
    assert not set(VERSIONS) & set(models())


def test_a_file_of_the_user_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = (MODELS / "llama-3-8b.yml").read_text()
    (tmp_path / "llama-3.1-70b").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert load_model("llama-3.1-70b").fields["layers"] == 32
    assert located("llama-3.1-70b", str(tmp_path)) == str(tmp_path / "llama-3.1-70b")
    assert located("llama-3.3-70b", str(tmp_path)) == "llama-3.3-70b"
