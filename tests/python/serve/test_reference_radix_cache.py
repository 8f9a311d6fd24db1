"""The reference of a radix tree of prefixes against a flat table of all prefixes, on drawn
requests, and against what is known of such a cache."""

from __future__ import annotations

import random
from collections.abc import Iterable

import pytest
from reference_radix_cache import RadixCache, RadixTree, Tokens, common


class Table:
    """The same rules without a tree: each prefix has the number of its last use. `cuts` are
    prefixes where a node ends."""

    def __init__(self) -> None:
        self.used: dict[Tokens, int] = {}
        self.cuts: set[Tokens] = set()
        self.searches = 0

    def search(self, tokens: Tokens) -> int:
        """Length of the longest kept beginning."""
        self.searches += 1
        length = 0
        while length < len(tokens) and tokens[: length + 1] in self.used:
            length += 1
        end = tokens[:length]
        uses = [tokens[: place + 1] for place in range(length)]
        while end and end not in self.cuts:  # the rest of the node
            end = next(each for each in self.used if each[:-1] == end)
            uses.append(end)
        self.used |= dict.fromkeys(uses, self.searches)
        if length:
            self.cuts.add(tokens[:length])
        return length

    def insert(self, tokens: Tokens) -> None:
        """Keeps the tokens."""
        length = self.search(tokens)
        self.searches += 1
        for place in range(length, len(tokens)):
            self.used[tokens[: place + 1]] = self.searches
        if tokens:
            self.cuts.add(tokens)

    def evict(self, slots: int, held: list[Tokens]) -> list[Tokens]:
        """Forgets nodes without children that nothing holds."""
        gone: list[Tokens] = []
        while slots > 0:
            inner = {each[:-1] for each in self.used}
            leaves = [each for each in self.used if each not in inner]
            free = [each for each in leaves if not any(path[: len(each)] == each for path in held)]
            if not free:
                break
            oldest = min(free, key=self.used.__getitem__)
            gone.append(oldest)
            self.cuts.discard(oldest)
            while True:
                del self.used[oldest]
                slots -= 1
                oldest = oldest[:-1]
                if not oldest or oldest in self.cuts:
                    break
        return gone


def drawn(draw: random.Random, before: list[Tokens], longest: int) -> Tokens:
    """Tokens that often begin as others did."""
    start: Tokens = ()
    if before and draw.random() < 0.7:
        other = draw.choice(before)
        start = other[: draw.randint(0, len(other))]
    return start + tuple(draw.randint(0, 2) for _ in range(draw.randint(1, longest)))


def prefixes_of(many: Iterable[Tokens]) -> set[Tokens]:
    """All beginnings."""
    return {each[: end + 1] for each in many for end in range(len(each))}


@pytest.mark.parametrize("seed", range(40))
def test_the_tree_is_the_table_of_its_prefixes(seed: int) -> None:
    """Searches, inserts, evictions, holders: lengths, sizes and what is forgotten, in order."""
    draw = random.Random(seed)
    tree, table = RadixTree(), Table()
    known: list[Tokens] = []
    held = []
    for _ in range(60):
        choice = draw.random()
        tokens = drawn(draw, known, 6)
        if choice < 0.3:
            assert len(tree.search(tokens).path()) == table.search(tokens)
        elif choice < 0.6:
            known.append(tokens)
            node, _ = tree.insert(tokens)
            table.insert(tokens)
            assert node.path() == tokens
        elif choice < 0.75:
            node = tree.search(tokens)
            assert len(node.path()) == table.search(tokens)
            tree.hold(node)
            held.append(node)
        elif choice < 0.85 and held:
            tree.let_go(held.pop(draw.randrange(len(held))))
        else:
            slots = draw.randint(1, 8)
            assert tree.evict(slots) == table.evict(slots, [node.path() for node in held])
        assert tree.size == len(table.used)
        kept = {node.path() for node in tree.nodes()}
        assert kept == table.cuts
        assert tree.held == len(prefixes_of(node.path() for node in held))


@pytest.mark.parametrize("seed", range(10))
def test_with_room_for_all_a_prompt_finds_the_longest_common_beginning(seed: int) -> None:
    """Of all prompts before it, and never its own last token."""
    draw = random.Random(seed)
    cache = RadixCache(10**6)
    known: list[Tokens] = []
    for number in range(40):
        prompt = drawn(draw, known, 8)
        longest = max((common(prompt[:-1], other) for other in known), default=0)
        assert cache.come(number, prompt) == longest
        known.append(prompt)
        for _ in range(draw.randint(0, 3)):
            assert cache.grow(number, draw.randint(0, 2))
        if draw.random() < 0.5:
            known.append(cache.requests[number].tokens)
            cache.go(number)
    assert cache.tree.size == len(prefixes_of(known))
    assert not cache.evicted


@pytest.mark.parametrize("seed", range(20))
def test_slots_are_free_kept_or_a_request_s_own(seed: int) -> None:
    """Requests in few slots: none is lost, held ones stay, refusals are where all is held."""
    draw = random.Random(seed)
    cache = RadixCache(draw.randint(12, 60))
    known: list[Tokens] = []
    refused = 0
    for number in range(120):
        prompt = drawn(draw, known, 10)[: cache.slots]
        own = sum(each.own for each in cache.requests.values())
        cached = cache.come(number, prompt)
        known.append(prompt)
        if cached < 0:
            refused += 1
            assert own + cache.tree.held + len(prompt) > cache.slots
        for name in list(cache.requests):
            if draw.random() < 0.3:
                cache.grow(name, draw.randint(0, 2))
            if draw.random() < 0.3 or len(cache.requests) > 6:
                cache.go(name)
        assert cache.free >= 0
        assert cache.tree.size == sum(len(node.tokens) for node in cache.tree.nodes())
        for each in cache.requests.values():
            assert cache.tree.search(each.node.path()) is each.node
    assert cache.evicted
    for name in list(cache.requests):
        cache.go(name)
    assert cache.tree.held == 0
    assert cache.free + cache.tree.size == cache.slots


def test_the_leaf_that_was_used_longest_ago_goes_first() -> None:
    """By hand: two prompts share `ab`; the one that is not asked again goes, its beginning
    stays. The rest of a cut node is as new as the search that cut it."""
    cache = RadixCache(8)
    for number, prompt in enumerate(("abcd", "abef")):
        assert cache.come(number, tuple(prompt)) == 2 * number
        cache.go(number)
    assert cache.come(2, tuple("abcdx")) == 4
    cache.go(2)
    assert cache.come(3, tuple("zz")) == 0
    assert cache.evicted == [tuple("abef")]
    assert (cache.free, cache.tree.size) == (1, 7)
