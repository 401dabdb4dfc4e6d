"""What the sidecar is told: its environment, out of the engine's flags and the options."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from cacheaware.doctor.contradictions import METRICS_PATH
from cacheaware.doctor.control import METRICS_PORTS
from cacheaware.inject.api_key import key_secret
from cacheaware.inject.hooks import DEFAULTS, role_of
from cacheaware.inject.model_files import model_folder
from cacheaware.inject.pod import KEY_DIR, TOKEN_DIR, LeftAloneError, Pod
from cacheaware.inject.token import needs_token
from cacheaware.workload.engine import hides_port
from cacheaware_sidecar.settings import SettingsError, load, variable

LENGTHS = ("max-model-len", "context-length", "max-total-tokens", "ctx-size")
"""vLLM, SGLang, TGI, llama.cpp: the longest prompt plus answer."""
EVERYWHERE = frozenset({"0.0.0.0", "::", "[::]", "*", "localhost", "127.0.0.1"})  # noqa: S104
TLS = ("ssl-certfile", "ssl-keyfile")
REFERENCE = re.compile(r"\$(?:\(|\{)?([A-Za-z_][A-Za-z0-9_]*)(?:\)|\})?")
"""`$(NAME)` as Kubernetes expands it, `$NAME` and `${NAME}` as a shell does."""


@dataclass(frozen=True, slots=True)
class Told:
    """What other parts of the pod have to agree with."""

    port: int
    grace_s: int
    shutdown_s: int


def environment(pod: Pod, told: Told) -> list[dict[str, Any]]:
    """The sidecar's variables.

    Raises:
        LeftAloneError: the sidecar would refuse them.
    """
    url, needed = engine_url(pod)
    values = {name: str(value) for name, value in settings(pod, told, url).items() if value}
    literal = {variable(name): value for name, value in values.items()} | dict(
        pod.options.env or {}
    )
    check(literal, needed)
    return [
        *needed,
        *({"name": name, "value": value} for name, value in literal.items()),
        {
            "name": variable("pod_uid"),
            "valueFrom": {"fieldRef": {"fieldPath": "metadata.uid"}},
        },
    ]


def settings(pod: Pod, told: Told, url: str) -> Mapping[str, Any]:
    """Settings by name; None and 0 are left to the sidecar's own defaults."""
    engine, role = pod.engine, role_of(pod)
    return {
        "engine_url": url,
        "metrics_path": METRICS_PATH.get(engine.kind or ""),
        "port": told.port if told.port != DEFAULTS.port else None,
        "grace_seconds": told.grace_s,
        "engine_shutdown_seconds": told.shutdown_s,
        "drain_floor_seconds": pod.floor,
        "role": role if role != DEFAULTS.role else None,
        "max_batched_tokens": whole(pod, "max-num-batched-tokens"),
        "max_model_length": whole(pod, *LENGTHS),
        "tensor_parallel": whole(pod, "tensor-parallel-size"),
        "pipeline_parallel": whole(pod, "pipeline-parallel-size"),
        "decode_context_parallel": whole(pod, "decode-context-parallel-size", "dcp"),
        "kv_cache_dtype": plain(engine.flags.get("kv-cache-dtype")),
        "config_file": model_folder(pod),
        "api_key_file": f"{KEY_DIR}/api-key" if key_secret(pod) else None,
        "operator_account": pod.account,
        "token_dir": TOKEN_DIR if needs_token(pod) else None,
    }


def whole(pod: Pod, *flags: str) -> str | None:
    """The first of these flags that is a whole number; a name that hides one stays unknown."""
    given = (pod.engine.flags.get(flag, "") for flag in flags)
    return next((value for value in given if re.fullmatch(r"[1-9][0-9]{0,8}", value)), None)


def plain(value: str | None) -> str | None:
    """A flag's value, unless it is a variable."""
    return None if value is None or "$" in value else value


def engine_url(pod: Pod) -> tuple[str, list[Any]]:
    """Where the engine listens, and variables of its container that this needs.

    Raises:
        LeftAloneError: its address or port is a variable that can't be followed.
    """
    flags = pod.engine.flags
    scheme = "https" if any(flags.get(name) for name in TLS) else "http"
    if scheme == "https" and "CACHEAWARE_CA_FILE" not in (pod.options.env or {}):
        pod.notes.append(
            f"{pod.engine.name} speaks TLS: give the sidecar the authority's file with --mount and"
            " --env CACHEAWARE_CA_FILE=PATH"
        )
    port = METRICS_PORTS.get(pod.engine.kind or "", pod.engine.port)
    if hides_port(pod.container) and "CACHEAWARE_ENGINE_URL" not in (pod.options.env or {}):
        raise LeftAloneError(
            f"{pod.engine.name} listens on a port that its manifest does not show: name its"
            " containerPort, or tell the address by --env CACHEAWARE_ENGINE_URL=http://HOST:PORT"
        )
    host, needed = address(pod, flags.get("host", "localhost"))
    return f"{scheme}://{host}:{port}", needed


def address(pod: Pod, host: str) -> tuple[str, list[Any]]:
    """The engine's address, seen from the sidecar."""
    if host in EVERYWHERE or not host or "CACHEAWARE_ENGINE_URL" in (pod.options.env or {}):
        return "127.0.0.1", []
    named = REFERENCE.fullmatch(host)
    if named is None:
        return (f"[{host}]" if ":" in host else host), []
    given = [one for one in pod.container.get("env") or () if one.get("name") == named[1]]
    if not given:
        raise LeftAloneError(
            f"{pod.engine.name} listens on {host}, a variable that its env does not show: tell the"
            " address by --env CACHEAWARE_ENGINE_URL=http://HOST:PORT"
        )
    return f"$({named[1]})", [dict(given[0])]


def check(literal: Mapping[str, str], needed: list[Any]) -> None:
    """Let the sidecar's own rules see the variables.

    Raises:
        LeftAloneError: it would refuse them.
    """
    hidden = {variable("engine_url")} if needed else set()
    try:
        load({name: value for name, value in literal.items() if name not in hidden})
    except SettingsError as error:
        raise LeftAloneError(f"the sidecar would refuse its settings: {error}") from error
