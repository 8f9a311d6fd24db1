"""A memory simulator of one's own next to a network of Armillary: banks with one access at a time.

It has the call of the paper's memory API: who asks, the size, the tensor's location, a callback.
Its times are waits on the clock of the network, so accesses and messages keep one order. Run it as
`python adapters/python/memory.py [PLATFORM]`."""

import sys
from collections.abc import Callable

import armillary as arm

PS_PER_S = 10**12
STRIPE = 1 << 20
"""Consecutive bytes of one bank."""


class Banks:
    """A memory whose banks all NPUs share, by address."""

    def __init__(self, network: arm.Network, banks: int, bandwidth: int, latency: int) -> None:
        self.network, self.bandwidth, self.latency = network, bandwidth, latency
        self.free = [0] * banks
        """When each bank is free again, in picoseconds."""

    def access(self, size: int, address: int, callback: Callable[[], object]) -> None:
        """Loads or stores `size` bytes from `address` on, and calls back when that is over."""
        now, over = self.network.now, 0
        for begin in range(address - address % STRIPE, address + size, STRIPE):
            bank = begin // STRIPE % len(self.free)
            part = min(address + size, begin + STRIPE) - max(address, begin)
            self.free[bank] = max(now, self.free[bank]) - (-part * PS_PER_S // self.bandwidth)
            over = max(over, self.free[bank])
        self.network.schedule(over + self.latency - now, callback)


def main(platform: str) -> None:
    """Two loads of one bank and one of another; then the first NPU sends what it has."""
    with arm.Network(platform) as network:
        memory = Banks(network, banks=4, bandwidth=100 * 10**9, latency=50_000)

        def note(what: str) -> None:
            sys.stdout.write(f"{what}: {network.now / 1e6:.2f} us\n")

        def loaded() -> None:
            note("NPU 0 has loaded from bank 0")
            network.send(0, 1, STRIPE, callback=lambda: note("NPU 1 has what NPU 0 loaded"))

        memory.access(STRIPE, 0, loaded)
        memory.access(STRIPE, 4 * STRIPE, lambda: note("NPU 2 has loaded from bank 0"))
        memory.access(STRIPE, STRIPE, lambda: note("NPU 3 has loaded from bank 1"))
        network.run()


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "dgx-h100")
