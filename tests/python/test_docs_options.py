"""Tables of options in docs/models: every option of a family once, with its default and choices."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from typing import get_args, get_type_hints

import pytest
from conftest import ROOT

from armillary.workload.captured import Options as CapturedOptions
from armillary.workload.cnn import Options as CnnOptions
from armillary.workload.dlrm_options import Options as DlrmOptions
from armillary.workload.parallelism import FRAMEWORK_KEYS, FrameworkKeys, Parallelism

Declared = type[FrameworkKeys] | type[DlrmOptions] | type[CnnOptions] | type[CapturedOptions]
PAGES: dict[str, Declared] = {
    "parallelism.md": Parallelism,
    "frameworks.md": FrameworkKeys,
    "dlrm.md": DlrmOptions,
    "cnn.md": CnnOptions,
    "capture.md": CapturedOptions,
}
NAMES = {
    "parallelism.md": [
        each.name for each in fields(Parallelism) if each.name not in FRAMEWORK_KEYS
    ],
    "frameworks.md": list(FRAMEWORK_KEYS),
}
"""Options of pages that share a dataclass."""
WORDS = {True: ("on", "true"), False: ("off", "false"), None: ()}


def rows(page: str) -> list[tuple[list[str], str]]:
    """Options and defaults of each row of the page's table."""
    text = (ROOT / "docs" / "models" / page).read_text(encoding="utf-8")
    head = "key" if page == "frameworks.md" else "option"
    table = text.partition(f"| {head} | default | meaning |\n")[2].partition("\n\n")[0]
    cells = [[cell.strip() for cell in line.split("|")[1:]] for line in table.splitlines()[1:]]
    return [(re.findall(r"`(\w+)`", first), second) for first, second, *_ in cells]


@pytest.mark.parametrize(("page", "declared"), PAGES.items(), ids=list(PAGES))
def test_every_option_once(page: str, declared: Declared) -> None:
    listed = [name for names, _ in rows(page) for name in names]
    assert sorted(listed) == sorted(NAMES.get(page, [each.name for each in fields(declared)]))


@pytest.mark.parametrize(("page", "declared"), PAGES.items(), ids=list(PAGES))
def test_defaults(page: str, declared: Declared) -> None:
    defaults = {each.name: each.default for each in fields(declared)}
    for names, cell in rows(page):
        said = cell.split(", ") if len(names) > 1 and cell.count(", ") else [cell] * len(names)
        for name, words in zip(names, said, strict=True):
            default = defaults[name]
            if default is MISSING:
                assert words == "required", name
            elif default is not None and words:
                allowed = (
                    WORDS[default]
                    if isinstance(default, bool)
                    else (format(default, "g") if isinstance(default, float) else str(default),)
                )
                first = re.match(r"`?([^`;,\s]+)", words)
                assert first is not None and first[1] in allowed, f"{name}: {words}, not {default}"


@pytest.mark.parametrize(("page", "declared"), PAGES.items(), ids=list(PAGES))
def test_choices(page: str, declared: Declared) -> None:
    text = (ROOT / "docs" / "models" / page).read_text(encoding="utf-8")
    for name, hint in get_type_hints(declared).items():
        if name not in NAMES.get(page, [name]):
            continue
        choices = [each for each in get_args(hint) if isinstance(each, str)]
        choices += [
            word for part in get_args(hint) for word in get_args(part) if isinstance(word, str)
        ]
        missing = [choice for choice in choices if f"`{choice}`" not in text]
        assert not missing, f"{name}: {missing}"
