"""The forecast service: one fitted model, asked over HTTP by programs and by people.

The map, from the outside in:

======================  ====================================================================
``access.py``           settings, the socket, host names, tokens
``workers.py``          start: one process, or several under a supervisor
``server.py``           one process: model, event loop, signals, shutdown
``connections.py``      HTTP/1.1 by uvicorn: what is no HTTP, and answers that nobody reads
``application.py``      paths, and what every request passes: id, host, token, log, metrics
``monitoring.py``       log, metrics, traces
``routes.py``           the handlers
``openapi.py``          the OpenAPI document
``request_reading.py``  query parameters, bodies, questions and their cost
``problems.py``         why a request is not answered
``fair_queue.py``       long work, in which clients take turns by cost
``answering.py``        from questions to forecasts
``deciding.py``         goals, budgets, targets, portfolios, and the table of all curves
``model_holder.py``     the current model, and how another replaces it
``served_model.py``     a model that is ready to answer
======================  ====================================================================

Questions and answers are the types of :mod:`coterie.ads.protocol`, which also has the table of all
operations; the files of the page those of
:mod:`coterie.ads.page`. ``coterie ads serve`` starts the service; it needs the extra ``ads``.
"""
