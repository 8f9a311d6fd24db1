"""The statements of a shell script: words with their quotes, variables and comments.

Here: from text to words. Not here: the values of variables, conditions (`shell.py`)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ..errors import InputError, Problem

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
ASSIGNED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(\+?)=")
_ENDS = {"\n", ";", "&", "|"}
_MOST_WORDS = 100_000
_LONGEST = 20_000
"""Characters in brackets."""
_OPEN_ENDED = re.compile(r"[$`]")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a word: text, or the name of a variable."""

    text: str
    quoted: bool
    name: str = ""
    default: tuple[Piece, ...] | None = None
    dark: bool = False
    """Whether nothing is known of it, as of `$(...)`."""
    extra: bool = False
    """Whether its value stands only where the variable has one (`${NAME:+VALUE}`)."""


@dataclass(slots=True)
class Raw:
    """A word as it is written."""

    pieces: list[Piece]
    line: int


@dataclass(slots=True)
class Statement:
    """Words up to the end of a command. `array` has those in brackets of an assignment."""

    words: list[Raw]
    array: list[Raw] | None = None
    end: str = "\n"

    @property
    def line(self) -> int:
        """The line of its first word."""
        return self.words[0].line


class Lexer:
    """Statements of a text."""

    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.at, self.line = 0, 1

    def statements(self) -> Iterator[Statement]:
        """The statements in order. Raises `InputError`."""
        words: list[Raw] = []
        count = 0
        while self.at < len(self.text):
            self._skip_blanks()
            if self.at >= len(self.text):
                break
            sign = self.text[self.at]
            if sign in _ENDS:
                end = self._end()
                if words:
                    yield Statement(words, None, end)
                words = []
                continue
            if sign in "()":
                self.at += 1
                continue
            line = self.line
            if (found := ASSIGNED.match(self.text, self.at)) and self._opens(found.end()):
                words.append(Raw([Piece(found[0], False)], line))
                self.at = found.end() + 1
                yield Statement(words, self._array(line))
                words = []
                continue
            words.append(Raw(self._word(), line))
            count += 1
            if count > _MOST_WORDS:
                raise self._refused(line, f"has more than {_MOST_WORDS} words", "a launch script")
        if words:
            yield Statement(words)

    def _opens(self, at: int) -> bool:
        return self.text[at : at + 1] == "("

    def _refused(self, line: int, message: str, allowed: str) -> InputError:
        return InputError([Problem(self.file, f"line {line}", message, allowed)])

    def _skip_blanks(self) -> None:
        while self.at < len(self.text):
            if self.text.startswith("\\\n", self.at):
                self.at += 2
                self.line += 1
            elif self.text.startswith("\\\r\n", self.at):
                self.at += 3
                self.line += 1
            elif self.text[self.at] in " \t\r":
                self.at += 1
            elif self.text[self.at] == "#":
                stop = self.text.find("\n", self.at)
                self.at = len(self.text) if stop < 0 else stop
            else:
                break

    def _end(self) -> str:
        sign = self.text[self.at]
        double = self.text[self.at : self.at + 2]
        if double in ("&&", "||"):
            self.at += 2
            return double
        self.line += sign == "\n"
        self.at += 1
        return sign

    def _array(self, line: int) -> list[Raw]:
        found: list[Raw] = []
        while self.at < len(self.text):
            self._skip_blanks()
            if self.at >= len(self.text):
                break
            sign = self.text[self.at]
            if sign == ")":
                self.at += 1
                return found
            if sign == "\n":
                self.line += 1
                self.at += 1
                continue
            if sign in _ENDS or sign == "(":
                self.at += 1
                continue
            found.append(Raw(self._word(), self.line))
        raise self._refused(line, "an array is not closed", "NAME=( ... )")

    def _word(self) -> list[Piece]:
        pieces: list[Piece] = []
        start, first = self.at, self.line
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign in " \t\r()" or sign in _ENDS:
                break
            if sign == "'":
                stop = self.text.find("'", self.at + 1)
                if stop < 0:
                    raise self._refused(first, "a quote is not closed", "'...'")
                pieces.append(Piece(self.text[self.at + 1 : stop], True))
                self.line += self.text.count("\n", self.at, stop)
                self.at = stop + 1
            elif sign == '"':
                pieces += self._quoted(first)
            elif sign in "$`":
                pieces.append(self._dollar(False, first))
            elif sign == "\\":
                if self.text.startswith("\\\n", self.at):
                    break
                pieces.append(Piece(self.text[self.at + 1 : self.at + 2], True))
                self.at += 2
            else:
                pieces.append(Piece(sign, False))
                self.at += 1
        if self.at == start:
            self.at += 1
        return _joined(pieces)

    def _quoted(self, first: int) -> list[Piece]:
        pieces = [Piece("", True)]
        self.at += 1
        while self.at < len(self.text):
            sign = self.text[self.at]
            if sign == '"':
                self.at += 1
                return pieces
            if sign in "$`":
                pieces.append(self._dollar(True, first))
                continue
            if sign == "\\" and self.at + 1 < len(self.text):
                following = self.text[self.at + 1]
                self.line += following == "\n"
                kept = following if following in '"\\$`' else "\\" + following
                pieces.append(Piece(" " if following == "\n" else kept, True))
                self.at += 2
                continue
            self.line += sign == "\n"
            pieces.append(Piece(sign, True))
            self.at += 1
        raise self._refused(first, "a quote is not closed", '"..."')

    def _dollar(self, quoted: bool, line: int) -> Piece:
        """A piece that begins with `$` or a backquote."""
        text, at = self.text, self.at
        if text[at] == "`":
            stop = text.find("`", at + 1)
            return self._dark(at, len(text) if stop < 0 else stop + 1, quoted)
        if text.startswith("$(", at):
            return self._dark(at, self._closed(at + 1, "(", ")", line), quoted)
        if text.startswith("${", at):
            stop = self._closed(at + 1, "{", "}", line)
            self.line += text.count("\n", at, stop)
            self.at = stop
            return _braced(text[at + 2 : stop - 1], quoted)
        if found := _NAME.match(text, at + 1):
            self.at = found.end()
            return Piece(found[0], quoted, found[0])
        if text[at + 1 : at + 2] in ("@", "*"):
            self.at += 2
            return Piece(text[at : at + 2], quoted, "@")
        end = (
            at + 2 if text[at + 1 : at + 2].isalnum() or text[at + 1 : at + 2] in "#?$!" else at + 1
        )
        return self._dark(at, end, quoted)

    def _dark(self, start: int, stop: int, quoted: bool) -> Piece:
        self.line += self.text.count("\n", start, stop)
        self.at = max(stop, start + 1)
        return Piece(self.text[start:stop], quoted, dark=True)

    def _closed(self, at: int, opening: str, closing: str, line: int) -> int:
        depth = 0
        for place in range(at, min(len(self.text), at + _LONGEST)):
            depth += (self.text[place] == opening) - (self.text[place] == closing)
            if depth == 0:
                return place + 1
        raise self._refused(line, f"a {opening!r} is not closed", f"${opening}...{closing}")


def _joined(pieces: Sequence[Piece]) -> list[Piece]:
    """The pieces with neighbouring plain ones as one."""
    found: list[Piece] = []
    for each in pieces:
        plain = not each.name and not each.dark
        last = found[-1] if found else None
        if plain and last and not last.name and not last.dark and last.quoted == each.quoted:
            found[-1] = Piece(last.text + each.text, each.quoted)
        else:
            found.append(each)
    return found


def _braced(inside: str, quoted: bool) -> Piece:
    """`${...}`: a name, `NAME[@]`, `NAME:-VALUE`, `NAME:+VALUE`."""
    name = _NAME.match(inside)
    shown = "${" + inside + "}"
    if name is None:
        found = re.fullmatch(r"([0-9]+):?-(.*)", inside, re.S)
        if found is None:
            return Piece(shown, quoted, "@") if inside in "@*" and inside else _dark(shown, quoted)
        return Piece(shown, quoted, found[1], _default(found[2]))
    rest = inside[name.end() :]
    if rest in ("", "[@]", "[*]"):
        return Piece(shown, quoted, name[0])
    if found := re.fullmatch(r":?-(.*)", rest, re.S):
        return Piece(shown, quoted, name[0], _default(found[1]))
    if found := re.fullmatch(r":?\+(.*)", rest, re.S):
        return Piece(shown, quoted, name[0], _default(found[1]), extra=True)
    return _dark(shown, quoted)


def _dark(shown: str, quoted: bool) -> Piece:
    return Piece(shown, quoted, dark=True)


def _default(text: str) -> tuple[Piece, ...]:
    """The pieces of a default. One with more than a plain text or a variable is unknown."""
    bare = text.strip()
    for quote in "\"'":
        if len(bare) > 1 and bare[0] == bare[-1] == quote:
            bare = bare[1:-1]
    if not _OPEN_ENDED.search(bare) and '"' not in bare:
        return (Piece(bare, False),)
    if found := re.fullmatch(r"\$(?:([A-Za-z_]\w*)|\{([A-Za-z_]\w*)\})", bare):
        return (Piece(bare, False, found[1] or found[2]),)
    if found := re.fullmatch(r"(--[\w-]+) \"?\$\{?([A-Za-z_]\w*)\}?\"?", bare):
        return (Piece(found[1] + " ", False), Piece(found[2], False, found[2]))
    return (_dark(bare, False),)
