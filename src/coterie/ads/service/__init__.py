"""The forecast service: one fitted model, asked over HTTP by programs and by people.

The map, from the outside in:

==========================  ====================================================================
``server.py``               the process: starting, signals, ending
``listening.py``            what may be listened on, who may ask, by which names
``connections.py``          one connection: slow clients are cut off, too many are turned away
``client_holdings.py``      connections and unread answers, counted by client
``gate.py``                 one request: id, host, token, body, time, headers, log, metrics
``request_bodies.py``       a body, read whole and within limits
``deadlines.py``            requests that take too long are ended
``admission.py``            how many requests may be under way, in all and of one client
``limits.py``               the limits, on one screen
``routes.py``               paths as templates, for logs, metrics and the token
``request_logs.py``         one line a request, without anything personal
``metrics.py``              counts for Prometheus
``problems.py``             what is wrong, as JSON
``answer_headers.py``       the headers of every answer
``application.py``          the routes
``api_document.py``         their description (OpenAPI)
``questions.py``            what is asked, read strictly
``question_faults.py``      what is wrong with it, and where
``answers.py``              what is asked about, placed and answered
``written_figures.py``      figures as JSON
``forecast_lane.py``        the quick way from a question to its answer
``advertiser_search.py``    advertisers by a part of their id
``served_model.py``         a model that is ready to answer
``model_holder.py``         the model of now, and how another takes its place
``printable_texts.py``      names and reasons from outside, fit for logs and answers
``model_checks.py``         a model is sound before it is served
``pages.py``                the what-if page
==========================  ====================================================================

``coterie ads serve`` starts it; it needs the extra ``service``.
"""
