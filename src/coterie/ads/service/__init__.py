"""The forecast service: one fitted model, asked over HTTP by programs and by people.

The map, from the outside in:

========================  ==================================================================
``server.py``             the process: starting, signals, ending
``access/``               what a request passes before it is answered
``listening.py``          what may be listened on, who may ask, by which names
``connections.py``        one connection: slow clients are cut off, too many are turned away
``gate.py``               one request: id, host, token, body, time, headers, log, metrics
``request_bodies.py``     a body, read whole and within limits
``admission.py``          what clients may have at a time, and for how long
``request_logs.py``       one line a request, without anything personal
``metrics.py``            counts for Prometheus
``problems.py``           what is wrong, as JSON; the headers of every answer
``application.py``        the routes
``api_document.py``       their description (OpenAPI)
``pages.py``              the what-if page
``answering/``            questions in, forecasts out
``questions.py``          what is asked, read strictly, and what is wrong with it
``forecast_lane.py``      the quick way from a question to its answer
``answers.py``            what is asked about, placed and answered
``models/``               the model that answers
``model_holder.py``       the model of now, and how another takes its place
``served_model.py``       a model that is ready to answer
``written_figures.py``    figures as JSON
``advertiser_search.py``  advertisers by a part of their id
========================  ==================================================================

``coterie ads serve`` starts it; it needs the extra ``service``.
"""
