"""Paths as templates: what logs and metrics call them, and which are open to all."""

from __future__ import annotations

__all__ = ["BODY_ROUTE", "OPEN_ROUTES", "UNKNOWN", "UNQUEUED_ROUTES", "route_of"]

#: What a path that is none of ours is called, whatever it holds.
UNKNOWN = "(unknown)"

#: Routes that need no token where others do: the page, which asks for it, and a sign of life.
OPEN_ROUTES = frozenset({"/", "/assets/{name}", "/health"})

#: Routes that are answered also when all places are taken.
UNQUEUED_ROUTES = frozenset({"/health", "/metrics"})

#: The one route whose requests have a body that is read, and their method.
BODY_ROUTE = ("POST", "/v1/forecast")

_EXACT = {
    path: path
    for path in (
        "/",
        "/health",
        "/metrics",
        "/openapi.json",
        "/v1/model",
        "/v1/segments",
        "/v1/advertisers",
        "/v1/forecast",
    )
}
_BELOW = {"/v1/advertisers/": "/v1/advertisers/{id}", "/assets/": "/assets/{name}"}


def route_of(path: str) -> str:
    """The template of a path; it holds nothing of what a client wrote.

    >>> route_of("/v1/advertisers/adv-00042"), route_of("/v1/model"), route_of("/etc/passwd")
    ('/v1/advertisers/{id}', '/v1/model', '(unknown)')
    """
    found = _EXACT.get(path)
    if found is not None:
        return found
    for prefix, template in _BELOW.items():
        if path.startswith(prefix):
            return template
    return UNKNOWN
