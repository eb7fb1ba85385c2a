"""The forecast service: one fitted model, asked over HTTP by programs and by people.

The map, from the outside in:

======================  ====================================================================
``access.py``           settings, host names, tokens
``server.py``           processes, sockets and connections; signals, reloads, shutdown
``application.py``      what every request passes: id, host, token, log, metrics; the routes
``request_reading.py``  query parameters, headers and bodies
``problems.py``         why a request is not answered
``fair_queue.py``       long work, in which clients take turns by cost
``answering.py``        from questions to forecasts, decisions and the table of curves
``served_model.py``     a model that is ready to answer, and how another replaces it
``monitoring.py``       log, metrics, traces
``openapi.py``          the OpenAPI document
======================  ====================================================================

Questions and answers are the types of :mod:`coterie.ads.protocol`, which also has the table of all
operations; the files of the page are in :mod:`coterie.ads.page`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from coterie.runtime.imports import require_extra

if TYPE_CHECKING:
    from coterie.ads.service.access import ServiceSettings


def serve(settings: ServiceSettings) -> None:
    """Serve a model until SIGTERM or SIGINT; running requests are finished first.

    SIGHUP reads model and tokens again. A second SIGTERM or SIGINT ends the service immediately.
    A token in the environment variable ``COTERIE_TOKEN`` is accepted, too.

    Raises
    ------
    CoterieError
        If the service cannot start. Nothing listens then.
    """
    packages = ("starlette", "uvicorn", "httptools", "msgspec", "prometheus_client")
    require_extra("ads", "the service needs", *packages)
    from coterie.ads.service.server import serve_until_stopped

    serve_until_stopped(settings)
