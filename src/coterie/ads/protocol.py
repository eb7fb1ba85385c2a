"""What one request, one client and all of them together may take, on one screen."""

from __future__ import annotations

from dataclasses import dataclass, fields

from coterie.errors import InvalidParameterError

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """The limits of a service; every one is above 0.

    Those of one client are beside those of all; connections of trusted proxies are counted in all
    alone. ``texts`` and ``all_text_chars`` are of advertisers that the model does not know: each
    text is compared with all that it does know.
    """

    body_bytes: int = 1_048_576  # of one request's body
    buffered_bytes: int = 268_435_456  # of bodies that are still arriving or wait for their turn
    buffered_bytes_per_client: int = 67_108_864
    unsent_bytes: int = 268_435_456  # of all answers that clients were slow to read
    header_bytes: int = 65_536  # of a request's first line and headers together
    headers: int = 100
    questions: int = 1_000  # in one request, as all down to texts
    bids: int = 10_000  # those of all questions together
    texts: int = 100
    all_text_chars: int = 200_000
    text_chars: int = 10_000  # of one advertiser's text
    id_chars: int = 1_024
    request_seconds: float = 10.0  # from the body's last byte to the answer's first
    # from a request's first byte, or a connection's beginning, to the headers' end
    header_seconds: float = 10.0
    body_seconds: float = 20.0  # from the end of the headers to the body's last byte
    idle_seconds: float = 75.0  # of silence between requests, or of an answer left unread
    in_flight: int = 64  # requests that are worked on at a time
    in_flight_per_client: int = 48
    waiting: int = 512  # requests that wait for their turn
    waiting_per_client: int = 256
    connections: int = 4_000  # that are open at a time
    connections_per_client: int = 1_500
    grace_seconds: float = 20.0  # for open requests when the service shuts down

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise InvalidParameterError(f"the limit {field.name} is {value}; it must exceed 0")
