"""A hook of mkdocs that makes the site whole.

Documents of the root, such as ARCHITECTURE.md, become pages in `house/`. Links to them lead there,
and links to other files of the repository (sources, examples) become plain text. Links within docs/
stay as they are, and `mkdocs build --strict` checks them."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
HOUSE = ("ARCHITECTURE", "CHANGELOG", "COMPARE", "CONTRIBUTING", "DESIGN", "SECURITY")
_LINK = re.compile(r"(!?)\[([^\]\[]*)\]\((?![a-z]+:|#)([^)\s#]+)(#[^)\s]*)?\)")


def target(link: str, page: str) -> str | None:
    """Where a link of `page` leads on the site, or None if that file is not part of it. Pages are
    named by their path on the site, links are as the repository has them."""
    source = posixpath.basename(page) if page.startswith("house/") else f"docs/{page}"
    path = posixpath.normpath(posixpath.join(posixpath.dirname(source), link))
    if path.removesuffix(".md") in HOUSE:
        path = f"docs/house/{path}"
    if not path.startswith("docs/") or not posixpath.splitext(path)[1]:
        return None
    return posixpath.relpath(path.removeprefix("docs/"), posixpath.dirname(page) or ".")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs with the files of the site: adds the documents of the root."""
    for name in HOUSE:
        path = str(ROOT / f"{name}.md")
        files.append(File.generated(config, f"house/{name}.md", abs_src_path=path))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Called by mkdocs with the text of each page: turns the links."""

    def turned(match: re.Match[str]) -> str:
        found = target(match[3], page.file.src_uri)
        return match[2] if found is None else f"{match[1]}[{match[2]}]({found}{match[4] or ''})"

    return _LINK.sub(turned, markdown)
