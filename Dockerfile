# Image of the forecast service. The guide page "Running the service" says how to run it.
#
# BASE is any Debian with Python 3.11 or newer and its venv module.
ARG BASE=python:3.12-slim

FROM ${BASE} AS build
# "traces" adds OpenTelemetry
ARG EXTRAS=service
WORKDIR /build
COPY pyproject.toml requirements.txt README.md LICENSE ./
COPY src src
# requirements.txt has the versions that the tests ran with
RUN python3 -m venv /opt/coterie \
    && /opt/coterie/bin/pip wheel --no-cache-dir --no-deps --wheel-dir wheels . \
    && /opt/coterie/bin/pip install --no-cache-dir --constraint requirements.txt \
        "$(ls wheels/*.whl)[${EXTRAS}]" \
    && /opt/coterie/bin/python -m pip uninstall --yes pip

FROM ${BASE}
COPY --from=build /opt/coterie /opt/coterie
# Compiled loops are found again only on the CPU that they were compiled for. The generic one is
# each CPU of the architecture; the image may run on another machine than it was built on.
ARG NUMBA_CPU_NAME=generic
ENV PATH=/opt/coterie/bin:$PATH \
    NUMBA_CACHE_DIR=/opt/coterie/cache \
    NUMBA_CPU_NAME=${NUMBA_CPU_NAME} \
    PYTHONDONTWRITEBYTECODE=1
# the service uses this cache though it cannot write to it
RUN coterie warm
USER 10001:10001
EXPOSE 8400
# urllib would use a proxy of the environment
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["/opt/coterie/bin/python", "-c", "import http.client, sys; asked = http.client.HTTPConnection('127.0.0.1', 8400, timeout=4); asked.request('GET', '/health/ready'); sys.exit(asked.getresponse().status != 200)"]
# an option that is given again replaces these
ENTRYPOINT ["/opt/coterie/bin/coterie", "ads", "serve", "--host", "0.0.0.0", "--port", "8400"]
CMD ["/model/market.coterie"]
