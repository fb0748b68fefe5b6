"""Open the page on a phone: what that opens and to whom, a QR code, and what happens until Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.text import Text

from service.cli.console import out
from service.runtime.sockets import lan_address

if TYPE_CHECKING:
    from service.runtime.client import Service

_SQUARES = " ▄▀█"
# The service itself listens, and not a relay in this process: so it knows which requests came from the network, and
# can refuse the token, the other names of this machine and the sessions of its own browsers there.


def open_on_phone(service: Service) -> None:
    """Let a phone in until Ctrl-C, or until the service ends it.

    Raises ConfigurationError without a private network, or if its address cannot be used; ServiceError.
    """
    host = lan_address()
    out.say(f"Until this command ends, Everindex listens at http://{host}:{service.port}, too.")
    out.say(
        "Anyone in this network who has the code below within two minutes can read and change the notes of"
        f" {service.root}."
    )
    out.say("The connection is not encrypted: do this only in a network that you trust.", "yellow")
    try:
        for event in service.events("/phone", host=host):
            if "code" in event:
                _show_code(f"http://{host}:{service.port}/open/{event['code']}")
            elif "signed_in" in event:
                out.say(
                    "A phone is signed in; the code is used up. Ctrl-C signs it out and closes the address."
                )
            else:
                out.say(f"Closed: {event['over']}.")
                return
    except KeyboardInterrupt:
        out.say("Closed. The phone is signed out.")


def _show_code(address: str) -> None:
    try:
        _SQUARES.encode(out.encoding)
    except UnicodeEncodeError:
        out.say("Type this address into the phone's browser, within two minutes:")
    else:
        out.print()
        for line in _drawn(address):
            # In any terminal a camera needs dark on light.
            out.print(Text(line, "black on white"), soft_wrap=True)
        out.print()
        out.say("Scan it with the phone's camera, or type this address there, within two minutes:")
    out.say(f"  {address}", "bold")


def _drawn(address: str) -> Iterator[str]:
    """Yield the lines of a QR code; each character is two of its squares, one above the other."""
    import segno  # noqa: PLC0415 - only this needs it

    rows = [list(row) for row in segno.make_qr(address).matrix_iter(border=4)]
    rows += [[0] * len(rows[0])] * (len(rows) % 2)
    for upper, lower in zip(rows[::2], rows[1::2], strict=True):
        yield "".join(
            _SQUARES[2 * bool(above) + bool(below)] for above, below in zip(upper, lower, strict=True)
        )
