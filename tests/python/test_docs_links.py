"""Links between documents lead somewhere: the file exists, and so does the heading."""

from __future__ import annotations

import functools
import re
import subprocess
from pathlib import Path

from conftest import ROOT

HOUSE = ("README", "ARCHITECTURE", "DESIGN", "CONTRIBUTING", "CHANGELOG", "COMPARE")
FOLDERS = ("docs", "examples", "lab/accuracy", "lab/results", "tests/golden")
DOCUMENTS = [path for name in HOUSE if (path := ROOT / f"{name}.md").is_file()]
DOCUMENTS += [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("**/*.md"))]
FENCED = re.compile(r"^```.*?^```", re.M | re.S)
LINK = re.compile(r"\[[^\]\[]+\]\(([^)\s]+)\)")


@functools.cache
def anchors(document: Path) -> set[str]:
    """The headings of a document as links name them."""
    text = FENCED.sub("", document.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+?)\s*$", text, re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def links(document: Path) -> list[str]:
    return LINK.findall(FENCED.sub("", document.read_text(encoding="utf-8")))


def test_links_lead_somewhere() -> None:
    each = {str(document.relative_to(ROOT)): lost_links(document) for document in DOCUMENTS}
    assert {name: lost for name, lost in each.items() if lost} == {}


def lost_links(document: Path) -> list[str]:
    """Links of a document to what is not there."""
    lost = []
    for link in links(document):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = link.partition("#")
        target = (document.parent / name).resolve() if name else document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    return lost


def test_every_page_is_in_the_index() -> None:
    docs = ROOT / "docs"
    listed = {docs / link.partition("#")[0] for link in links(docs / "index.md")}
    missing = set(docs.glob("**/*.md")) - {docs / "index.md"} - listed
    assert not missing


def test_every_page_is_on_the_site() -> None:
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:")[2]
    listed = {ROOT / "docs" / name for name in re.findall(r"(\S+\.md)$", nav, re.M)}
    missing = set((ROOT / "docs").glob("**/*.md")) - listed
    assert not missing


def test_pages_named_elsewhere_exist() -> None:
    """Messages, comments and presets name pages by their path from the root."""
    files = subprocess.run(
        ["git", "grep", "-IhoE", r"\bdocs/(guides|models|reference|internals)/[a-z0-9/-]+\.md"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    ).stdout.split()
    named = set(files)
    assert not sorted(name for name in named if not (ROOT / name).exists())


def test_every_example_is_in_the_list() -> None:
    listed = {link.strip("/").split("/")[0] for link in links(ROOT / "examples/README.md")}
    examples = {path.name for path in (ROOT / "examples").iterdir()} - {"README.md"}
    assert examples <= listed
