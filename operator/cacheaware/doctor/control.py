"""What the sidecar is told, against what the template says: grace, engine, operator, token."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from cacheaware.doctor.findings import Finding, Severity
from cacheaware.doctor.sidecar import Sidecar, literals, mounts_of
from cacheaware.doctor.subject import Subject
from cacheaware.doctor.targets import scalers_of
from cacheaware.workload.engine import DIGITS, told_ports
from cacheaware_sidecar.settings import unknown_variables

METRICS_PORTS = {"triton-trtllm": 8002}
"""Engines whose metrics have a port of their own."""


def control(subject: Subject) -> Iterator[Finding]:
    """Whether the sidecar is told the truth."""
    sidecar = subject.sidecar
    if sidecar is None:
        return
    if sidecar.trouble is not None:
        yield subject.error(
            "sidecar-settings", f"{sidecar.name} does not start: {sidecar.trouble}",
            "correct that variable in the sidecar's env",
        )  # fmt: skip
    if unknown := unknown_variables({name: "" for name, _ in literals(sidecar.container)}):
        yield subject.warning(
            "sidecar-setting-unknown",
            f"{sidecar.name} knows no {', '.join(unknown)}: a misspelt setting sets nothing",
            "correct the name, or remove it",
        )
    if sidecar.settings is not None:
        yield from grace(subject, sidecar)
        yield from engine_url(subject, sidecar)
        yield from account(subject, sidecar)


def grace(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """The sidecar can't see its pod's grace period; it has to be told the same number."""
    told, real = sidecar.setting("grace_seconds"), subject.grace
    if told is None or told == real or real <= 0:
        return
    fix = f'set CACHEAWARE_GRACE_SECONDS to "{real}"'
    if told > real:
        yield subject.error(
            "grace-mismatch",
            f"the sidecar is told a grace period of {told} s, and the pod has {real} s: it is"
            " killed in the middle of its drain",
            fix,
        )
    else:
        yield subject.warning(
            "grace-mismatch",
            f"the sidecar is told a grace period of {told} s, and the pod has {real} s: the drain"
            f" ends {real - told} s earlier than it could",
            fix,
        )


def engine_url(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """The sidecar has to ask where the engine listens."""
    url = sidecar.setting("engine_url")
    if url is None:
        return
    port, known = port_of_url(url), known_ports(subject)
    if known and port not in known:
        yield subject.error(
            "engine-url-port",
            f"CACHEAWARE_ENGINE_URL asks port {port}, and {subject.engine.name} listens on"
            f" {', '.join(map(str, sorted(known)))}: the pod stays in `loading`, never Ready",
            f"set CACHEAWARE_ENGINE_URL to http://127.0.0.1:{subject.engine.port}",
        )


def known_ports(subject: Subject) -> set[int]:
    """Where the engine may listen; empty where its flag is a variable and nothing else tells."""
    engine = subject.engine
    ports = engine.container.get("ports") or ()
    named = {int(one["containerPort"]) for one in ports if one.get("containerPort")}
    told = told_ports(engine.container)
    if told and not any(map(DIGITS.fullmatch, told)):
        return named
    extra = METRICS_PORTS.get(engine.kind or "")
    return named | {engine.port} | ({extra} if extra else set())


def port_of_url(url: str) -> int:
    """The port of a URL."""
    parts = urlsplit(url)
    return parts.port or (443 if parts.scheme == "https" else 80)


def account(subject: Subject, sidecar: Sidecar) -> Iterator[Finding]:
    """Whether the operator may cordon: without it each shrink is a final drain."""
    wanted = "operator_account"
    if wanted not in sidecar.untold and sidecar.setting(wanted) is None:
        scaled = any(one.get("spec", {}).get("mode") == "Scale" for one in scalers_of(subject))
        yield subject.finding(
            Severity.WARNING if scaled else Severity.INFO,
            "operator-account-unset",
            "CACHEAWARE_OPERATOR_ACCOUNT is unset: the sidecar refuses all control calls, so a"
            " scale-down can't be called off; it goes by the final drain, one pod at a time",
            "set it to system:serviceaccount:NAMESPACE:NAME of the operator",
        )
    elif not has_token(subject, sidecar):
        yield subject.warning(
            "token-missing",
            "automountServiceAccountToken is false, and the sidecar has no projected token with"
            f" ca.crt at {sidecar.setting('token_dir')}: it can't fetch the keys that the"
            " operator's calls are checked with, and refuses them",
            "run `cacheaware inject`, which projects a token for the sidecar alone",
        )


def has_token(subject: Subject, sidecar: Sidecar) -> bool:
    """Whether the sidecar has a token, as far as the template tells."""
    folder = sidecar.setting("token_dir")
    if subject.workload.spec.get("automountServiceAccountToken") is not False or folder is None:
        return True
    name = mounts_of(sidecar.container).get(str(folder).rstrip("/"))
    volumes = subject.workload.spec.get("volumes") or ()
    found: Any = next((one for one in volumes if name and one.get("name") == name), {})
    sources = (found.get("projected") or {}).get("sources") or ()
    paths = {
        one["serviceAccountToken"].get("path") for one in sources if "serviceAccountToken" in one
    }
    roots = [one for one in sources if "configMap" in one]
    return "token" in paths and bool(roots)
