"""Launch scripts read as text: the words of the command that starts a job. Nothing is executed.

Here: variables and arrays that the script assigns, and conditions that such variables decide. Not
here: words, quotes and comments (`shell_words.py`), the meaning of flags (`megatron.py`).

A variable has a value where the script assigns one. Of `${NAME:-VALUE}` without an assignment the
value is assumed, with a note. Everything else, such as `$(nproc)` or `$1`, is unknown: the words
that need it say so, and only a flag that matters refuses them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from ..errors import InputError, Problem
from .given import Said
from .shell_words import ASSIGNED, Lexer, Piece, Raw, Statement

_SHOWING = ("echo", "printf", "mkdir", "cd", "set", "source", ".", "rm", "cat", "ls", "unset")
"""Commands whose words start nothing."""
_OPENING, _CLOSING = ("for", "while", "until", "case", "select"), ("done", "esac")
_FIRST_MARK = 0xF0000
"""The first character that no script uses, of a plane for private use."""
_MOST_MARKS = 10_000
_LONGEST_VALUE = 2**20
"""Characters of a value."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word with its variables replaced."""

    text: str
    line: int
    unknown: tuple[str, ...] = ()
    """Parts that the script does not say."""
    assumed: tuple[str, ...] = ()
    """Defaults of variables that it stands on."""


@dataclass(slots=True)
class Script:
    """The commands of a script."""

    commands: list[list[Word]]
    values: dict[str, Said]
    """Variables at the end of the script, those that have one value."""
    notes: list[str] = field(default_factory=list)
    """Assumptions about its arguments, and defaults that decide conditions."""


class _Reader:
    """Goes through the statements of a script in order.

    Texts hold a mark, a character of no script, where something is unknown or assumed. So what is
    split at blanks keeps its marks."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.values: dict[str, list[str]] = {}
        self.marks: dict[tuple[bool, str], str] = {}
        """Whether it is unknown (not assumed), and what: its mark."""
        self.notes: dict[str, None] = {}
        self.commands: list[list[Word]] = []
        self.depth = 0
        """Open loops."""
        self.tests: list[tuple[str, list[Raw]]] | None = None
        """Commands between `if` and `then`, each with what links it to those before."""
        self.is_else_if = False
        self.branches: list[tuple[int, bool | None, bool]] = []
        """Line of each open `if`; whether its branch runs; whether one of its branches did."""

    def read(self, statements: Iterator[Statement]) -> None:
        link = ""
        for each in statements:
            while each.words and self._opens(each, link):
                each.words = each.words[1:]
                link = ""
            link = each.end

    def _opens(self, each: Statement, link: str) -> bool:
        """Whether a statement begins with a word of a condition or a loop, which is done with then.
        Otherwise all of it is."""
        head = _plain(each.words[0])
        if self.tests is not None and head != "then":
            self.tests.append((link, each.words))
            return False
        if self.tests is not None:
            self._enter(self.tests, each.line)
            self.tests = None
        elif head in ("if", "elif"):
            self.is_else_if, self.tests = head == "elif", []
        elif head == "else":
            self._otherwise()
        elif head == "fi":
            self.branches = self.branches[:-1]
        elif head in _OPENING or head in _CLOSING:
            self.depth = max(0, self.depth + (1 if head in _OPENING else -1))
            return False
        elif head not in ("do", "{", "}"):
            if head != "function":
                self._statement(each)
            return False
        return True

    def known(self) -> dict[str, Said]:
        """Variables that have one value."""
        words = {
            name: self._word(each[0], 0) for name, each in self.values.items() if len(each) == 1
        }
        return {
            name: Said(word.text, name, word.unknown, word.assumed) for name, word in words.items()
        }

    def _enter(self, tests: list[tuple[str, list[Raw]]], line: int) -> None:
        ran = self.branches.pop()[2] if self.is_else_if and self.branches else False
        decided = False if ran else self._decide(tests)
        self.branches.append((line, decided, ran or bool(decided)))

    def _otherwise(self) -> None:
        if self.branches:
            line, decided, ran = self.branches.pop()
            self.branches.append((line, None if decided is None else not ran, ran))

    def _decide(self, tests: list[tuple[str, list[Raw]]]) -> bool | None:
        """Whether a condition holds; `None` where the script does not say."""
        found: bool | None = None
        for link, words in tests:
            parts = [self._word(part, 0) for each in words for part in self._expand(each)]
            self.notes |= dict.fromkeys(note for part in parts for note in part.assumed)
            holds = _test(parts)
            if holds is None or link not in ("", "&&", "||"):
                return None
            both = found and holds if link == "&&" else found or holds
            found = holds if found is None else both
        return found

    @property
    def _undecided(self) -> str:
        """Why what is here may not run; empty where it does."""
        line = next((line for line, decided, _ in self.branches if decided is None), 0)
        return f"the condition before line {line}" if line else "a loop" if self.depth else ""

    def _mark(self, is_unknown: bool, said: str) -> str:
        if len(self.marks) > _MOST_MARKS:
            said_ = f"more than {_MOST_MARKS} unknown values"
            raise InputError([Problem(self.file, "", said_, "the flags of one job")])
        return self.marks.setdefault((is_unknown, said), chr(_FIRST_MARK + len(self.marks)))

    def _word(self, text: str, line: int) -> Word:
        said = {mark: what for what, mark in self.marks.items() if mark in text}
        plain = "".join(letter for letter in text if ord(letter) < _FIRST_MARK)
        unknown = tuple(what for is_unknown, what in said.values() if is_unknown)
        assumed = tuple(what for is_unknown, what in said.values() if not is_unknown)
        return Word(plain, line, unknown, assumed)

    def _statement(self, each: Statement) -> None:
        if any(decided is False for _, decided, _ in self.branches):
            return
        words = each.words
        while words and _plain(words[0]) in ("export", "local", "declare", "readonly", "-a", "-x"):
            words = words[1:]
        assigned = ASSIGNED.match(_start(words[-1])) if words else None
        if assigned and each.array is not None:
            values = [part for word in each.array for part in self._expand(word)]
            self._assign(assigned[1], values, bool(assigned[2]))
            return
        while words and (assigned := ASSIGNED.match(_start(words[0]))):
            first = words[0].pieces[0]
            rest = [Piece(first.text[assigned.end() :], False), *words[0].pieces[1:]]
            value = " ".join(self._expand(Raw(rest, each.line), whole=True))
            before = self.values.get(assigned[1], []) if assigned[2] else []
            self._assign(assigned[1], ["".join((*before, value))], False)
            words = words[1:]
        if not words or _plain(words[0]) in _SHOWING:
            return
        why = self._undecided
        hidden = self._mark(True, why) if why else ""
        parts = [(part, word.line) for word in words for part in self._expand(word)]
        found = [self._word(text + hidden, line) for part, line in parts for text in _flags(part)]
        self.commands += [found] if found else []

    def _assign(self, name: str, values: list[str], more: bool) -> None:
        if self._undecided:
            hidden = self._mark(True, f"{name}, which depends on {self._undecided}")
            values = [text + hidden for text in values] or [hidden]
        self.values[name] = [*(self.values.get(name, []) if more else []), *values]
        self._limit(self.values[name], f"the value of {name}")

    def _limit(self, texts: Sequence[str], what: str) -> None:
        if sum(len(text) + 1 for text in texts) > _LONGEST_VALUE:
            said = f"{what} is longer than {_LONGEST_VALUE} characters"
            raise InputError([Problem(self.file, "", said, "the flags of one job")])

    def _expand(self, word: Raw, whole: bool = False) -> list[str]:
        """The words that a word stands for: a value without quotes is split at blanks, unless the
        word is `whole`."""
        if [piece.name for piece in word.pieces if piece.name or piece.text] == ["@"]:
            self.notes["arguments of the script ($@) are taken as none"] = None
            return []
        done: list[str] = []
        open_: str | None = "" if whole else None
        for piece in word.pieces:
            parts = self._piece(piece)
            if piece.name and not whole and not piece.quoted:
                parts = [part for text in parts for part in text.split()]
            elif piece.quoted:
                parts = parts or [""]
            for number, part in enumerate(parts):
                if number and not whole:
                    done.append(open_ or "")
                    open_ = ""
                open_ = (open_ or "") + " " * (number > 0 and whole) + part
        found = done if open_ is None else [*done, open_]
        self._limit(found, f"a word of line {word.line}")
        return found

    def _piece(self, piece: Piece) -> list[str]:
        if piece.dark or piece.name == "@":
            return [self._mark(True, piece.text)]
        if not piece.name:
            return [piece.text] if piece.text or piece.quoted else []
        known = self.values.get(piece.name)
        if piece.extra:
            return [self._default(piece)] if any(known or ()) else []
        if known is not None:
            return list(known)
        if piece.default is None:
            return [self._mark(True, f"${piece.name}")]
        shown = f"argument {piece.name}" if piece.name.isdigit() else piece.name
        value = self._default(piece)
        mark = self._mark(False, f"{shown} is taken as {self._word(value, 0).text}, its default")
        return [" ".join(text + mark for text in value.split())]

    def _default(self, piece: Piece) -> str:
        return "".join(part for each in piece.default or () for part in self._piece(each))


def _flags(part: str) -> list[str]:
    """A word that holds flags, as those of `bash -c` do, at its blanks."""
    return part.split() if part.startswith("--") or " --" in part else [part]


def _plain(word: Raw) -> str:
    """A word of plain text without quotes; empty for another one."""
    return word.pieces[0].text if len(word.pieces) == 1 and not word.pieces[0].name else ""


def _start(word: Raw) -> str:
    first = word.pieces[0] if word.pieces else None
    return first.text if first and not first.quoted and not first.name and not first.dark else ""


def _test(words: Sequence[Word]) -> bool | None:
    """The value of `[ A == B ]` and its like; `None` where it is not known."""
    if not words or any(word.unknown for word in words):
        return None
    texts = [word.text for word in words]
    if texts[0] not in ("[", "[[") or texts[-1] not in ("]", "]]"):
        return None
    inner = texts[1:-1]
    negated = inner[:1] == ["!"]
    found = _compared(inner[1:] if negated else inner)
    return None if found is None else found != negated


def _compared(inner: list[str]) -> bool | None:
    match inner:
        case ["-z" | "-n" as how, text]:
            return bool(text) == (how == "-n")
        case [left, "=" | "==" | "-eq" | "!=" | "-ne" as how, right]:
            return (left == right) == (how not in ("!=", "-ne"))
        case [left, "-gt" | "-lt" | "-ge" | "-le" as how, right] if _are_counts(left, right):
            one, other = int(left), int(right)
            holds = {
                "-gt": one > other,
                "-lt": one < other,
                "-ge": one >= other,
                "-le": one <= other,
            }
            return holds[how]
    return None


def _are_counts(*texts: str) -> bool:
    return all(text.isascii() and text.isdecimal() and len(text) < 20 for text in texts)


def read_script(text: str, file: str) -> Script:
    """The commands of a script, with variables replaced. Raises `InputError`."""
    marked = next((letter for letter in text if ord(letter) >= _FIRST_MARK), None)
    if marked is not None:
        raise InputError([Problem(file, "", f"has the character {marked!a}", "a launch script")])
    reader = _Reader(file)
    reader.read(Lexer(text, file).statements())
    return Script(reader.commands, reader.known(), list(reader.notes))
