# Image of the forecast service. docs/user_guide/service.md says how to run it.
#
# BASE is any Debian with Python 3.11 or newer, its headers and its venv module.
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
# "all" adds OpenTelemetry
ARG EXTRAS=ads
WORKDIR /build
RUN apt-get update && apt-get install --yes --no-install-recommends gcc libc6-dev
COPY pyproject.toml meson.build requirements.txt README.md LICENSE ./
COPY packaging/version.py packaging/
COPY src src
# requirements.txt has the versions that the tests ran with
RUN python3 -m venv /opt/coterie \
    && /opt/coterie/bin/pip wheel --no-cache-dir --no-deps --wheel-dir wheels . \
    && /opt/coterie/bin/pip install --no-cache-dir --constraint requirements.txt \
        "$(ls wheels/*.whl)[${EXTRAS}]" \
    && /opt/coterie/bin/python -m pip uninstall --yes pip

FROM ${BASE}
COPY --from=build /opt/coterie /opt/coterie
ENV PATH=/opt/coterie/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
EXPOSE 8400
# urllib would use a proxy of the environment
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/opt/coterie/bin/python", "-c", "import http.client, sys; asked = http.client.HTTPConnection('127.0.0.1', 8400, timeout=4); asked.request('GET', '/health/ready'); sys.exit(asked.getresponse().status != 200)"]
# an option that is given again replaces these
ENTRYPOINT ["/opt/coterie/bin/coterie", "ads", "serve", "--host", "0.0.0.0", "--port", "8400"]
CMD ["/model/market.coterie"]
