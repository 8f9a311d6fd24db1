"""tools/prose.py [--check] [FILE...]: sets the prose of documents in lines of at most 100 columns.

Paragraphs, list items and quotes are filled anew; tables, code, headings and HTML stay as they are.
Without files it takes all documents. `--check` writes nothing and ends with 1 if a file would
change."""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WIDTH = 100
_WHOLE = re.compile(r"`[^`]*`|!?\[[^\]\[]*\]\([^)]*\)")
"""Parts of a line that are never broken: code and links."""
_ITEM = re.compile(r"\s*(?:[-*+]|\d+\.)\s+")
_FENCE = re.compile(r"\s*```")
_MARK = re.compile(r"(?:[-+*>|]|#+|=+|\d+\.)$")
"""Words that would mean something else at the beginning of a line."""
_OTHER = ("#", "|", "<!--", "![", "<", "===", "---", "::: ")


def documents() -> list[Path]:
    """Every document that is checked."""
    folders = (ROOT / "docs", ROOT / "lab/accuracy", ROOT / "lab/results")
    below = [path for folder in folders for path in sorted(folder.glob("**/*.md"))]
    return [*sorted(ROOT.glob("*.md")), *below]


def filled(text: str) -> str:
    """The text with its prose in lines of at most `WIDTH` columns, where words allow it."""
    out: list[str] = []
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        line = lines[at]
        if _FENCE.match(line):
            end = next((i for i in range(at + 1, len(lines)) if _FENCE.match(lines[i])), at)
            out += lines[at : end + 1]
            at = end + 1
        elif _apart(line):
            out.append(line)
            at += 1
        else:
            end = at + 1
            while end < len(lines) and not _apart(lines[end]) and not _begins(lines[end]):
                end += 1
            out += _paragraph(lines[at:end])
            at = end
    return "\n".join(out)


def _apart(line: str) -> bool:
    return not line.strip() or line.startswith(_OTHER)


def _begins(line: str) -> bool:
    return bool(_ITEM.match(line) or _FENCE.match(line))


def _paragraph(lines: list[str]) -> list[str]:
    item = _ITEM.match(lines[0])
    quote = "> " if lines[0].startswith("> ") else ""
    first = item[0] if item else quote or re.match(r"\s*", lines[0])[0]  # type: ignore[index]
    rest = quote or " " * len(first)
    body = " ".join(line.removeprefix(quote).strip() for line in lines)
    words = re.findall(r"(?:" + _WHOLE.pattern + r"|\S)+", body.removeprefix(first.strip()))
    found, line = [], first
    for word in words:
        begun = line in (first, rest)
        if not begun and len(line) + 1 + len(word) > WIDTH and not _MARK.match(word):
            found.append(line)
            line, begun = rest, True
        line += word if begun else f" {word}"
    return [*found, line]


def main() -> int:
    """The command line."""
    check = "--check" in sys.argv[1:]
    files = [Path(name) for name in sys.argv[1:] if not name.startswith("--")] or documents()
    changed = []
    for path in files:
        text = path.read_text(encoding="utf-8")
        if filled(text) != text:
            changed.append(path)
            if not check:
                path.write_text(filled(text), encoding="utf-8")
    for path in changed:
        print(f"{'not filled' if check else 'filled'}: {path}")
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
