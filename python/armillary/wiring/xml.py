"""XML as a tree of elements with the lines they stand at.

Python's own expat reads it. A document type is refused where it begins, so there are no entities
that could grow or lead elsewhere (https://docs.python.org/3/library/xml.html, security), and depth
and number of elements have bounds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from ..errors import InputError, Problem

MOST_DEPTH, MOST_ELEMENTS = 64, 100_000


@dataclass
class Element:
    """An element: its name, attributes, the line of its start, and what is inside."""

    tag: str
    attributes: dict[str, str]
    line: int
    inside: list[Element] = field(default_factory=list)

    def each(self, tag: str) -> Iterator[Element]:
        """The elements of that name right inside."""
        return (element for element in self.inside if element.tag == tag)

    def walk(self) -> Iterator[Element]:
        """This element and all below it, in the order of the file."""
        yield self
        for element in self.inside:
            yield from element.walk()


class _Refused(Exception):
    pass


def parse(text: bytes, file: str, allowed: str) -> Element:
    """The root element of a document. Raises `InputError` naming `file` and the line."""
    parser = expat.ParserCreate()
    root, open_, count = Element("", {}, 0), [], 0
    open_.append(root)

    def start(tag: str, attributes: dict[str, str]) -> None:
        nonlocal count
        count += 1
        if count > MOST_ELEMENTS or len(open_) > MOST_DEPTH:
            raise _Refused(f"more than {MOST_ELEMENTS:,} elements, or {MOST_DEPTH} levels")
        element = Element(tag, attributes, parser.CurrentLineNumber)
        open_[-1].inside.append(element)
        open_.append(element)

    def refuse(*_: object) -> None:
        raise _Refused("has a document type, which could define entities")

    parser.StartElementHandler = start
    parser.EndElementHandler = lambda _tag: open_.pop()
    parser.StartDoctypeDeclHandler = refuse
    try:
        parser.Parse(text, True)
    except (expat.ExpatError, _Refused, ValueError, LookupError) as error:
        said = str(error).split(":")[0]
        place = f"line {parser.CurrentLineNumber}"
        message = said if isinstance(error, _Refused) else f"is not XML: {said}"
        raise InputError([Problem(file, place, message, allowed)]) from None
    return root.inside[0]
