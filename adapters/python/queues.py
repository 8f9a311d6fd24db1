"""A network simulator for `--backend external:`: whole messages queue for links.

A message that gets a link at t leaves it at t + bytes / bandwidth, and is at the other end a
latency later. There it queues for the next link. Messages are described in
docs/reference/external-protocol.md."""

import heapq
import struct
import sys

RECORD = struct.Struct("<4I3Q")
VERSION, NEVER = 2, 2**64 - 1
HELLO, LINK, ROUTE, _READY, START, ADVANCE, USAGE = range(1, 8)
DELIVERY, NEXT, CARRIED, _COUNT, DONE = range(16, 21)
ROUTES_USED = 1
PS_PER_S = 10**12


class Message:
    """On its way."""

    def __init__(self, size: int, token: int, route: list[int]) -> None:
        self.bytes, self.token, self.route = size, token, route
        self.place = 0
        """Links behind it."""


class Link:
    """A queue."""

    def __init__(self, bandwidth: int, latency: int) -> None:
        self.bandwidth, self.latency = bandwidth, latency
        self.free = self.bytes = self.messages = self.busy = 0

    def carry(self, now: int, size: int) -> int:
        """When a message that comes now is at the other end."""
        time = -(-size * PS_PER_S // self.bandwidth)
        self.free = max(now, self.free) + time
        self.bytes, self.messages, self.busy = (
            self.bytes + size,
            self.messages + 1,
            self.busy + time,
        )
        return self.free + self.latency


class Network:
    """Links, routes and what is on its way."""

    def __init__(self) -> None:
        self.links: dict[int, Link] = {}
        self.routes: dict[tuple[int, int, int], list[int]] = {}  # by source, destination, lane
        self.events: list[tuple[int, int, Message]] = []
        self.order = 0

    def push(self, time: int, message: Message) -> None:
        """Something happens to a message at a time."""
        heapq.heappush(self.events, (time, self.order, message))
        self.order += 1

    def advance(self, until: int) -> None:
        """Goes on to the first delivery, and no further than `until`."""
        while self.events and self.events[0][0] <= until:
            now, _, message = heapq.heappop(self.events)
            if message.place < len(message.route):
                link = self.links[message.route[message.place]]
                message.place += 1
                self.push(link.carry(now, message.bytes), message)
            else:
                write(DELIVERY, x=now, z=message.token)
                until = now  # what else arrives now, and nothing later
        write(NEXT, x=self.events[0][0] if self.events else NEVER)

    def report(self, until: int) -> None:
        """Bytes that were carried until then."""
        for number, link in self.links.items():
            if link.messages:
                left = max(link.free - until, 0)  # booked, and not sent yet
                carried = link.bytes - left * link.bandwidth // 10**12
                write(CARRIED, a=number, x=carried, y=link.messages, z=link.busy - left)
        write(DONE)


def write(kind: int, a: int = 0, b: int = 0, x: int = 0, y: int = 0, z: int = 0) -> None:
    """Writes a record."""
    sys.stdout.buffer.write(RECORD.pack(kind, a, b, 0, x, y, z))


def main() -> None:
    """Answers until standard input ends."""
    source, network = sys.stdin.buffer, Network()
    while len(record := source.read(RECORD.size)) == RECORD.size:
        kind, a, b, c, x, y, z = RECORD.unpack(record)
        if kind == HELLO:
            source.read(y)  # settings
            name = b"queues in Python"
            write(HELLO, a=VERSION, b=ROUTES_USED, y=len(name))
            sys.stdout.buffer.write(name)
        elif kind == LINK:
            network.links[z] = Link(x, y)
        elif kind == ROUTE:
            network.routes.setdefault((a, b, y), []).append(c)
        elif kind == START:
            network.push(x, Message(y, z, network.routes[a, b, c]))
        elif kind == ADVANCE:
            network.advance(x)
        elif kind == USAGE:
            network.report(x)
        if kind in (HELLO, ADVANCE, USAGE):
            sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
