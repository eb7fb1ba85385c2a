"""Clients for the forecast service, in blocking and in asynchronous form."""

from coterie.runtime.imports import require_extra

require_extra("client", "a client of the service needs", "httpx", "msgspec")
