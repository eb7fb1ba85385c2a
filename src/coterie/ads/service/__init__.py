"""The forecast service: one fitted model, asked over HTTP by programs and by people.

The map, from the outside in:

========================  ==================================================================
``service_settings.py``   what to serve, where, and for whom
``workers.py``            start: one process, or several under a supervisor
``server.py``             one process: model, event loop, signals, shutdown
``systemd.py``            sockets from systemd, notifications to it
``access.py``             host names, tokens, what may be listened on
``application.py``        what every request passes: id, host, token, log, metrics
``request_logs.py``       one line a request, without anything personal
``traces.py``             OpenTelemetry
``metrics.py``            Prometheus
``request_reading.py``    query parameters, media types, bodies
``routes.py``             the handlers
``operations.py``         the table of routes
``openapi.py``            the OpenAPI document, made from that table
``problems.py``           why a request is not answered
``fair_queue.py``         long work, in which clients take turns by cost
``question_reading.py``   questions, read strictly, and what they cost
``answering.py``          from questions to answers
``deciding.py``           goals, budgets, targets and portfolios
``bulk_curves.py``        the curves of all advertisers as a table
``pages.py``              the what-if page
``model_holder.py``       the current model, and how another replaces it
``served_model.py``       a model that is ready to answer
``advertiser_search.py``  advertisers by a part of their id
========================  ==================================================================

Questions and answers are the types of :mod:`coterie.ads.protocol`. ``coterie ads serve`` starts the
service; it needs the extra ``service``.
"""
