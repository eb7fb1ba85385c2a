"""What one request, one client and all of them together may take, on one screen."""

from __future__ import annotations

from dataclasses import dataclass, fields

from coterie.errors import InvalidParameterError

__all__ = ["Limits"]


@dataclass(frozen=True)
class Limits:
    """The limits of a service; every one is above 0.

    Attributes
    ----------
    body_bytes : int
        Of one request's body.
    buffered_bytes, buffered_bytes_per_client : int
        Of bodies that are still arriving or wait for their turn, in all and of one client.
    unsent_bytes : int
        Of all answers that clients were slow to read.
    header_bytes, headers : int
        Of a request's first line and headers together, and how many headers there may be.
    questions : int
        In one request.
    bids : int
        In one request, those of all its questions together.
    texts : int
        In one request, of advertisers that the model does not know: each is compared with all
        that it does know.
    all_text_chars : int
        Of those texts together.
    text_chars, id_chars : int
        Of an advertiser's text and id in a question.
    request_seconds : float
        From the body's last byte to the answer's first.
    header_seconds : float
        From a request's first byte to the end of its headers; also from the beginning of a
        connection to its first byte.
    body_seconds : float
        From the end of the headers to the body's last byte.
    idle_seconds : float
        How long a connection may be silent between requests, or leave an answer unread.
    in_flight, in_flight_per_client : int
        Requests that are worked on at a time, in all and of one client.
    waiting, waiting_per_client : int
        Requests that wait for their turn, in all and of one client.
    connections, connections_per_client : int
        That are open at a time, in all and of one client; those of trusted proxies are counted
        in all alone.
    grace_seconds : float
        How long requests under way have when the service is told to end.

    Examples
    --------
    >>> Limits(questions=10).questions
    10
    """

    body_bytes: int = 1_048_576
    buffered_bytes: int = 268_435_456
    buffered_bytes_per_client: int = 67_108_864
    unsent_bytes: int = 268_435_456
    header_bytes: int = 65_536
    headers: int = 100
    questions: int = 1_000
    bids: int = 10_000
    texts: int = 100
    all_text_chars: int = 200_000
    text_chars: int = 10_000
    id_chars: int = 1_024
    request_seconds: float = 10.0
    header_seconds: float = 10.0
    body_seconds: float = 20.0
    idle_seconds: float = 75.0
    in_flight: int = 64
    in_flight_per_client: int = 48
    waiting: int = 512
    waiting_per_client: int = 256
    connections: int = 4_000
    connections_per_client: int = 1_500
    grace_seconds: float = 20.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise InvalidParameterError(f"the limit {field.name} is {value}; it must exceed 0")
