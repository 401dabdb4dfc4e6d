# Three images of one source: docker build --target operator|sidecar|mock-engine .
#
# Where the network needs them, two secrets bring in what belongs to the place, not the image:
#   --secret id=pip-conf,src=FILE    pip's configuration
#   --secret id=ca-bundle,src=FILE   certificate authorities
ARG PYTHON=docker.io/library/python:3.12-slim
# What to build in, where it isn't what to run on.
ARG PYTHON_BUILD=${PYTHON}

# pip and the build back end, in an environment of their own that no image gets.
FROM ${PYTHON_BUILD} AS tools
ENV PIP_CERT=/etc/ssl/certs/ca-certificates.crt \
    PIP_DISABLE_PIP_VERSION_CHECK=1 \
    PIP_NO_CACHE_DIR=1 \
    PIP_ROOT_USER_ACTION=ignore
WORKDIR /src
COPY pyproject.toml constraints.txt ./
# One truth about dependencies: pyproject.toml, less what the sidecar and the mock engine never load.
RUN --mount=type=secret,id=pip-conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-bundle,target=/etc/ssl/certs/ca-certificates.crt \
    python3 -m venv /opt/tools \
 && python3 -m venv --without-pip /opt/cacheaware \
 && echo /app > "$(echo /opt/cacheaware/lib/python3.*/site-packages)/app.pth" \
 && /opt/tools/bin/pip install --quiet --constraint constraints.txt hatchling \
 && python3 -c 'import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
base, extra = p["dependencies"], p["optional-dependencies"]; \
light = [d for d in base if not d.startswith(("msgspec", "typer"))]; \
[open(f"{name}.txt", "w").write("\n".join(needs)) for name, needs in \
{"sidecar": light, "operator": base + extra["operator"], "mock-engine": base + [d for d in extra["sim"] if not d.startswith("numpy")]}.items()]'

FROM tools AS wheel
COPY README.md LICENSE ./
COPY sidecar sidecar
COPY operator operator
COPY simulator simulator
RUN /opt/tools/bin/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir /dist .

FROM tools AS sidecar-dependencies
RUN --mount=type=secret,id=pip-conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-bundle,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/tools/bin/pip --python /opt/cacheaware/bin/python3 install --quiet --no-compile \
      --constraint constraints.txt --requirement sidecar.txt \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/cacheaware/lib

# The client loads its 120 MB of models and typed calls on demand; kopf demands three of them.
FROM tools AS operator-dependencies
RUN --mount=type=secret,id=pip-conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-bundle,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/tools/bin/pip --python /opt/cacheaware/bin/python3 install --quiet --no-compile \
      --constraint constraints.txt --requirement operator.txt \
 && cd /opt/cacheaware/lib/python3.*/site-packages/kubernetes \
 && find client/models client/api aio/client/models aio/client/api -name '*.py' \
      ! -name __init__.py ! -name v1_managed_fields_entry.py ! -name v1_object_meta.py \
      ! -name v1_owner_reference.py -delete \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/cacheaware/lib

FROM tools AS mock-engine-dependencies
RUN --mount=type=secret,id=pip-conf,target=/etc/pip.conf \
    --mount=type=secret,id=ca-bundle,target=/etc/ssl/certs/ca-certificates.crt \
    /opt/tools/bin/pip --python /opt/cacheaware/bin/python3 install --quiet --no-compile \
      --constraint constraints.txt --requirement mock-engine.txt \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /opt/cacheaware/lib

# The code of each image: the wheel without the packages that the image doesn't run.
FROM wheel AS code
RUN /opt/tools/bin/pip --python /opt/cacheaware/bin/python3 install --quiet --no-compile --no-deps \
      --target /app /dist/*.whl \
 && python3 -m compileall -q --invalidation-mode unchecked-hash /app

FROM code AS sidecar-code
RUN rm -r /app/cacheaware /app/cacheaware_sim /app/bin/cacheaware /app/bin/kubectl-cacheaware

# Without the simulator its commands are not announced either.
FROM code AS operator-code
RUN rm -r /app/cacheaware_sim /app/bin/kubectl-cacheaware \
 && sed -i '/cacheaware_sim/d' /app/cacheaware-*.dist-info/entry_points.txt

FROM code AS mock-engine-code
RUN rm -r /app/bin/kubectl-cacheaware /app/bin/cacheaware-sidecar

FROM ${PYTHON} AS runtime
ENV PATH=/app/bin:/opt/cacheaware/bin:/usr/local/bin:/usr/bin:/bin \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
WORKDIR /
USER 65532:65532
HEALTHCHECK NONE
LABEL org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"

FROM runtime AS sidecar
COPY --from=sidecar-dependencies /opt/cacheaware /opt/cacheaware
COPY --from=sidecar-code /app /app
LABEL org.opencontainers.image.title="cacheaware sidecar" \
      org.opencontainers.image.description="Knows the KV cache of the engine beside it"
EXPOSE 9440
ENTRYPOINT ["cacheaware-sidecar"]

FROM runtime AS mock-engine
COPY --from=mock-engine-dependencies /opt/cacheaware /opt/cacheaware
COPY --from=mock-engine-code /app /app
LABEL org.opencontainers.image.title="cacheaware mock engine" \
      org.opencontainers.image.description="An LLM engine's behaviour and metrics, without a GPU"
EXPOSE 8000
ENTRYPOINT ["python3", "-m", "cacheaware_sim", "serve"]

FROM runtime AS operator
COPY --from=operator-dependencies /opt/cacheaware /opt/cacheaware
COPY --from=operator-code /app /app
LABEL org.opencontainers.image.title="cacheaware operator" \
      org.opencontainers.image.description="Scales LLM engines on what their KV caches hold"
EXPOSE 8080
ENTRYPOINT ["cacheaware", "run"]
