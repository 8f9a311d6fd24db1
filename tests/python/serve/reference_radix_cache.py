"""A cache of prefixes as a radix tree, by the rules of RadixAttention (SGLang, arXiv 2312.07104).
Tests compare other caches with it.

- A node has a run of tokens. Its path from the root is a prefix whose keys and values are kept.
  Children of a node begin with different tokens.
- A search follows the tokens as far as they go. If it ends inside a node, the node is cut there.
  All nodes on the way are used now, also the rest of a node that is cut, as in SGLang's code.
- Inserting searches first, and adds what is missing as one leaf, which is newer than the search.
- A request holds the nodes on its path. Nodes that are held stay.
- Slots are made free by the leaf that was used longest ago, whole, until enough are. A node
  whose last child goes is a leaf then. Nodes are never joined again.
- A request that comes computes at least its last token: the search is without it. Its prompt is
  inserted at once. Tokens of its output have slots of its own until it goes. They are inserted
  then, and slots of tokens that the tree has already are free.

Here: clear code, no speed. Sizes are tokens; a slot has the keys and values of one token."""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field

Tokens = tuple[Hashable, ...]


@dataclass(eq=False)
class Node:
    """A run of tokens below another node."""

    tokens: Tokens = ()
    parent: Node | None = None
    children: dict[Hashable, Node] = field(default_factory=dict)
    holders: int = 0
    used: int = 0
    """Number of the last search that came here, or of its insertion."""

    def path(self) -> Tokens:
        """All tokens from the root."""
        before = self.parent.path() if self.parent else ()
        return before + self.tokens

    def up(self) -> Iterator[Node]:
        """This node and those above it, without the root."""
        node = self
        while node.parent is not None:
            yield node
            node = node.parent


def common(one: Sequence[Hashable], other: Sequence[Hashable]) -> int:
    """Length of the common beginning."""
    length = 0
    for left, right in zip(one, other, strict=False):
        if left != right:
            break
        length += 1
    return length


class RadixTree:
    """The prefixes that are kept."""

    def __init__(self) -> None:
        self.root = Node()
        self.searches = 0
        self.size = 0
        """Tokens of all nodes."""
        self.held = 0
        """Tokens of nodes that are held."""

    def search(self, tokens: Tokens) -> Node:
        """The node whose path is the longest kept beginning of the tokens."""
        self.searches += 1
        node = self.root
        while tokens and tokens[0] in node.children:
            node = node.children[tokens[0]]
            node.used = self.searches
            length = common(node.tokens, tokens)
            if length < len(node.tokens):
                return self.cut(node, length)
            tokens = tokens[length:]
        return node

    def cut(self, node: Node, length: int) -> Node:
        """Cuts a node. Returns the first part, which is new."""
        assert node.parent is not None
        first = Node(node.tokens[:length], node.parent, {}, node.holders, node.used)
        node.parent.children[node.tokens[0]] = first
        node.tokens, node.parent = node.tokens[length:], first
        first.children[node.tokens[0]] = node
        return first

    def insert(self, tokens: Tokens) -> tuple[Node, int]:
        """Keeps the tokens. Returns the node of their end, and how many of them were kept
        before."""
        node = self.search(tokens)
        before = len(node.path())
        if before < len(tokens):
            self.searches += 1
            leaf = Node(tokens[before:], node, {}, 0, self.searches)
            node.children[leaf.tokens[0]] = leaf
            self.size += len(leaf.tokens)
            node = leaf
        return node, before

    def hold(self, node: Node) -> None:
        """A request holds a path."""
        for each in node.up():
            self.held += 0 if each.holders else len(each.tokens)
            each.holders += 1

    def let_go(self, node: Node) -> None:
        """A request holds a path no more."""
        for each in node.up():
            each.holders -= 1
            self.held -= 0 if each.holders else len(each.tokens)

    def nodes(self) -> Iterator[Node]:
        """All nodes but the root."""
        rest = list(self.root.children.values())
        while rest:
            node = rest.pop()
            yield node
            rest += node.children.values()

    def evict(self, slots: int) -> list[Tokens]:
        """Forgets leaves until the slots are free, or the rest is held. Returns paths of leaves."""
        leaves = [
            (node.used, id(node), node)
            for node in self.nodes()
            if not node.children and not node.holders
        ]
        heapq.heapify(leaves)
        gone: list[Tokens] = []
        while slots > 0 and leaves:
            _, _, node = heapq.heappop(leaves)
            assert node.parent is not None
            gone.append(node.path())
            del node.parent.children[node.tokens[0]]
            self.size -= len(node.tokens)
            slots -= len(node.tokens)
            above = node.parent
            if above is not self.root and not above.children and not above.holders:
                heapq.heappush(leaves, (above.used, id(above), above))
        return gone


@dataclass
class Held:
    """A request that is there."""

    tokens: Tokens
    node: Node
    own: int = 0
    """Slots that the tree does not have."""


class RadixCache:
    """Requests that come, grow and go, in a fixed number of slots."""

    def __init__(self, slots: int) -> None:
        self.slots = slots
        self.tree = RadixTree()
        self.requests: dict[int, Held] = {}
        self.evicted: list[Tokens] = []
        """All paths of leaves that were forgotten, in order."""

    @property
    def free(self) -> int:
        """Slots that nothing is in."""
        return self.slots - self.tree.size - sum(each.own for each in self.requests.values())

    def make_room(self, slots: int) -> bool:
        """Whether the slots are free, if need be by forgetting."""
        if self.free + self.tree.size - self.tree.held < slots:
            return False
        self.evicted += self.tree.evict(slots - self.free)
        return True

    def come(self, number: int, prompt: Tokens) -> int:
        """Cached tokens of a request that comes, or -1 without slots for it."""
        node = self.tree.search(prompt[:-1])
        cached = len(node.path())
        self.tree.hold(node)
        room = self.make_room(len(prompt) - cached)
        self.tree.let_go(node)
        if not room:
            return -1
        node, _ = self.tree.insert(prompt)
        self.tree.hold(node)
        self.requests[number] = Held(prompt, node)
        return cached

    def grow(self, number: int, token: Hashable) -> bool:
        """Whether there is a slot for one more token of a request."""
        if not self.make_room(1):
            return False
        held = self.requests[number]
        held.tokens += (token,)
        held.own += 1
        return True

    def go(self, number: int) -> None:
        """A request goes. Its tokens stay until their slots are needed."""
        held = self.requests.pop(number)
        self.tree.insert(held.tokens)
        self.tree.let_go(held.node)
