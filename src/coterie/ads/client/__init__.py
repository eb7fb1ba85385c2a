"""Clients for the forecast service, in blocking and in asynchronous form."""

from coterie.errors import MissingExtraError

try:
    import httpx as httpx
    import msgspec as msgspec
except ImportError as error:
    raise MissingExtraError(
        "a client of the service needs httpx and msgspec: pip install 'coterie[client]'"
    ) from error
