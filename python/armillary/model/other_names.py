"""Published names of the models that come with Armillary.

Here: which preset a name of the Hugging Face Hub or of another version means. Not here: the presets
(`models/*.yml`), how they are found (`files.py`). Only models of equal shape share a preset: the
number of layers, all widths and the vocabulary are the same. Sources: the `config.json` of each
version."""

from __future__ import annotations

from collections.abc import Collection

ORGANIZATIONS = frozenset(
    {
        "allenai",
        "deepseek-ai",
        "google",
        "meta-llama",
        "minimaxai",
        "mistralai",
        "moonshotai",
        "openai",
        "qwen",
        "xai-org",
        "zai-org",
    }
)
"""Publishers on the Hugging Face Hub whose names are known. A copy of somebody else may have been
pruned or quantized, so that its name says nothing about its shape."""

TUNED = ("-instruct", "-chat", "-base", "-it", "-hf", "-pt")
"""Ends of names of versions that differ from each other in weights alone."""

VERSIONS = {
    "meta-llama-3-8b": "llama-3-8b",
    "meta-llama-3-70b": "llama-3-70b",
    "meta-llama-3.1-8b": "llama-3-8b",
    "meta-llama-3.1-70b": "llama-3-70b",
    "meta-llama-3.1-405b": "llama-3-405b",
    "llama-3.1-8b": "llama-3-8b",
    "llama-3.1-70b": "llama-3-70b",
    "llama-3.1-405b": "llama-3-405b",
    "llama-3.3-70b": "llama-3-70b",
    "llama-4-scout-17b-16e": "llama-4-scout",
    "deepseek-v3-0324": "deepseek-v3",
    "deepseek-v3.1": "deepseek-v3",
    "deepseek-v3.1-terminus": "deepseek-v3",
    "deepseek-r1": "deepseek-v3",
    "deepseek-r1-0528": "deepseek-v3",
    "deepseek-r1-distill-llama-8b": "llama-3-8b",
    "deepseek-r1-distill-llama-70b": "llama-3-70b",
    "deepseek-r1-distill-qwen-14b": "qwen2.5-14b",
    "deepseek-r1-distill-qwen-32b": "qwen2.5-32b",
    "qwq-32b": "qwen2.5-32b",
    "qwen3-30b-a3b-2507": "qwen3-30b-a3b",
    "qwen3-30b-a3b-instruct-2507": "qwen3-30b-a3b",
    "qwen3-30b-a3b-thinking-2507": "qwen3-30b-a3b",
    "qwen3-235b-a22b-instruct-2507": "qwen3-235b-a22b",
    "qwen3-235b-a22b-thinking-2507": "qwen3-235b-a22b",
    "qwen3-next-80b-a3b-thinking": "qwen3-next-80b-a3b",
    "glm-5.1": "glm-5",
    "deepseek-v3.2-exp": "deepseek-v3.2",
    "kimi-k2-instruct-0905": "kimi-k2",
    "mistral-7b-v0.3": "mistral-7b",
    "mistral-7b-instruct-v0.3": "mistral-7b",
    "mixtral-8x7b-v0.1": "mixtral-8x7b",
    "mixtral-8x7b-instruct-v0.1": "mixtral-8x7b",
    "olmo-3-1125-32b": "olmo3-32b",
}
"""Other versions of a preset, by names in small letters without the ends of `TUNED`."""


def preset_of(name: str, presets: Collection[str]) -> str | None:
    """The one of `presets` that `name` means, and `None` if it means none.

    `name` is the name of a preset; or, in letters of any case, that of a version
    (`llama-3.3-70b`), with or without its publisher (`meta-llama/Llama-3.3-70B-Instruct`).
    """
    if name in presets:
        return name
    publisher, slash, own = name.lower().rpartition("/")
    if slash and publisher not in ORGANIZATIONS:
        return None
    for known in (own, _untuned(own)):
        found = VERSIONS.get(known, known)
        if found in presets:
            return found
    return None


def _untuned(name: str) -> str:
    """Without all ends of `TUNED`, in any order."""
    while end := next((each for each in TUNED if name.endswith(each)), None):
        name = name.removesuffix(end)
    return name
