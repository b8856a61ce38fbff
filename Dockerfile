# pricekit with its server, for serving and for batch jobs: docs/deployment.md#containers
#
#   docker build -t pricekit .
#   export PRICEKIT_TOKEN=$(openssl rand -hex 32)
#   docker run --read-only --tmpfs /tmp -e PRICEKIT_TOKEN -v "$PWD/bundle:/bundle:ro" -p 127.0.0.1:8080:8080 pricekit
#
# Without a token, the server does not start, because it listens on all addresses of the container.
#
# The digest is that of python:3.11.15-slim-bookworm for all platforms, as the repository docker-library/repo-info
# records it for 2026-08-05. Renew it for security updates: docker buildx imagetools inspect python:3.11-slim-bookworm
ARG BASE=docker.io/library/python:3.11.15-slim-bookworm@sha256:d29f48a31a8b408ed19272ca1e7b10ebae13b240a27e862d3d4217c528e2e0c3

FROM ${BASE} AS build
WORKDIR /src
RUN python -m venv --without-pip /opt/pricekit
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
COPY plugins/pricekit-serve plugins/pricekit-serve
RUN pip --python /opt/pricekit/bin/python install --no-cache-dir -c constraints.txt ".[cpu,sign]" ./plugins/pricekit-serve \
    && find /opt/pricekit -type d -name tests -prune -exec rm -r {} +

FROM ${BASE}
COPY --from=build /opt/pricekit /opt/pricekit
ENV PATH=/opt/pricekit/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PRICEKIT_CACHE=/tmp/pricekit
USER 10001:10001
WORKDIR /work
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8080/v2/health/ready', timeout=4)"]
ENTRYPOINT ["pricekit"]
CMD ["serve", "/bundle", "--engine", "ort-cpu", "--host", "0.0.0.0", "--log-format", "json"]
