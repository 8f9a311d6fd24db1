"""`armillary network`: a network for a front end in another process."""

from __future__ import annotations

import sys

from ..errors import InputError, Problem
from ..platform import Platform
from . import output
from .options import BackendName, Npus, PlatformName, Settings, settings


def network(
    platform: PlatformName,
    backend: BackendName = None,
    npus: Npus = None,
    set_: Settings = None,
) -> None:
    """Let another program drive a network, by records over a pipe.

    It sends records of 40 bytes: messages, receives, calls after a delay. The answers say
    what is due when. docs/reference/front-end-protocol.md has the records;
    adapters/c/armillary_network.h speaks them in C."""
    from ..network import serve

    with output.guard("armillary check"):
        if sys.stdin.isatty():
            text = "standard input is a terminal, and this verb reads records"
            raise InputError(
                [Problem("", "network", text, "a program that starts it (see --help)")]
            )
        target = Platform.load(platform, settings(set_, npus))
        for warning in target.warnings:
            output.log(f"warning: {warning}")
        serve(target, backend or target.backend, sys.stdin.buffer, sys.stdout.buffer)
