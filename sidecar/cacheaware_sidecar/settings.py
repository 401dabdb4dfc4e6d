"""All settings of the sidecar: names, defaults, bounds and meaning in one place.

They come from environment variables, because a pod template is where they are set, and they are
a frozen contract: fleets run old sidecars for months, so variables are only ever added.
`python -m cacheaware_sidecar.settings` prints the table of docs/sidecar.md.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any
from urllib.parse import urlsplit

from cacheaware_sidecar.drain import Handover
from cacheaware_sidecar.engines import ENGINES
from cacheaware_sidecar.warmup_plan import FEATURES, LORA

PREFIX = "CACHEAWARE_"
SERVICE_LINK = re.compile(r"(tcp|udp|sctp)://[0-9a-fA-F.:\[\]]+:[0-9]+")
"""What Kubernetes itself puts into CACHEAWARE_PORT where a Service is named "cacheaware"."""
MARGIN_S = 5
"""Between the end of the drain and the end of the grace period: hooks and teardown need time."""


class SettingsError(Exception):
    """One clear line: the variable, its value and what is allowed."""


@dataclass(frozen=True, slots=True)
class Kind:
    """How one kind of value is read."""

    parse: Callable[[str], Any]
    """From the variable's text; raises ValueError for what is not allowed."""
    allowed: str
    secret: bool = False
    """The value may hold a password and is not repeated in messages."""


def integer(low: int, high: int) -> Kind:
    """Whole numbers within bounds."""

    def parse(text: str) -> int:
        if not re.fullmatch(r"[0-9]{1,18}", text) or not low <= int(text) <= high:
            raise ValueError(text)
        return int(text)

    return Kind(parse, f"an integer from {low} to {high}")


def number(low: float, high: float) -> Kind:
    """Plain decimal numbers within bounds."""

    def parse(text: str) -> float:
        if not re.fullmatch(r"[0-9]{1,9}(\.[0-9]{1,9})?", text) or not low <= float(text) <= high:
            raise ValueError(text)
        return float(text)

    return Kind(parse, f"a number from {low:g} to {high:g}")


def choice(*values: str) -> Kind:
    """One of a few words."""

    def parse(text: str) -> str:
        if text not in values:
            raise ValueError(text)
        return text

    return Kind(parse, "one of " + ", ".join(values))


def on_off() -> Kind:
    """A switch."""
    return Kind(lambda text: {"on": True, "off": False}[text], "on or off")


def word() -> Kind:
    """A name of printable characters."""

    def parse(text: str) -> str:
        if not text.isprintable() or len(text) > 256:
            raise ValueError(text)
        return text

    return Kind(parse, "up to 256 printable characters")


def pattern(expression: str, allowed: str) -> Kind:
    """Text of a certain form."""

    def parse(text: str) -> str:
        if not re.fullmatch(expression, text):
            raise ValueError(text)
        return text

    return Kind(parse, allowed)


def absolute_path(longest: int = 1000) -> Kind:
    """An absolute path in the sidecar's container."""

    def parse(text: str) -> str:
        if not re.fullmatch(r"/[^\x00-\x1f]*", text) or len(text.encode()) > longest:
            raise ValueError(text)
        return text

    return Kind(parse, f"an absolute path of at most {longest} bytes")


def ports() -> Kind:
    """Ports, separated by commas."""

    def parse(text: str) -> tuple[int, ...]:
        found = tuple(
            int(part) for part in re.split(r" *, *", text) if integer(1, 65535).parse(part)
        )
        if len(set(found)) < len(found) or len(found) > 64:
            raise ValueError(text)
        return found

    return Kind(parse, "up to 64 different ports, separated by commas")


def http_path() -> Kind:
    """Path, and query if any, of an HTTP request."""

    def parse(text: str) -> str:
        if not re.fullmatch(r"/[\x21-\x7e]{0,255}", text) or "#" in text:
            raise ValueError(text)
        return text

    return Kind(parse, "a path that begins with /")


def features() -> Kind:
    """What a warm-up exercises besides plain prompts; `lora:NAME` is one adapter."""

    def parse(text: str) -> tuple[str, ...]:
        found = tuple(re.split(r" *, *", text))
        names = (each.partition(":")[2] for each in found if each.startswith(f"{LORA}:"))
        known = all(each in FEATURES or each.startswith(f"{LORA}:") for each in found)
        if not known or len(set(found)) < len(found) or not all(map(_is_name, names)):
            raise ValueError(text)
        return found

    return Kind(parse, f"different ones of {', '.join(FEATURES)}, {LORA}:NAME, split by commas")


def _is_name(text: str) -> bool:
    return 0 < len(text) <= 256 and text.isprintable()


def base_path() -> Kind:
    """The beginning of a path, without a slash at its end."""

    def parse(text: str) -> str:
        if not re.fullmatch(r"(/[A-Za-z0-9._~-]{1,64}){1,8}/?", text):
            raise ValueError(text)
        return text.rstrip("/")

    return Kind(parse, "a path such as /llm of letters, digits and -._~")


def server_url() -> Kind:
    """Scheme, host and port only: the paths are known."""

    def parse(text: str) -> str:
        parts = split_url(text)
        if parts.path not in {"", "/"} or parts.query:
            raise ValueError(text)
        return text.rstrip("/")

    return Kind(parse, "http://HOST[:PORT] or https://HOST[:PORT], without a user", secret=True)


def file_url() -> Kind:
    """A file on a web server."""

    def parse(text: str) -> str:
        split_url(text)
        return text

    return Kind(parse, "an http:// or https:// URL, without a user", secret=True)


def split_url(text: str) -> Any:
    """The parts of an http or https URL; ValueError for anything else and for credentials."""
    parts = urlsplit(text)
    plain = re.fullmatch(r"[\x21-\x7e]{1,2000}", text) and not parts.fragment
    if parts.scheme not in {"http", "https"} or not parts.hostname or not plain:
        raise ValueError(text)
    if "@" in parts.netloc or (parts.port is not None and not 1 <= parts.port <= 65535):
        raise ValueError(text)
    return parts


def setting(kind: Kind, default: Any, doc: str) -> Any:
    """A field of `Settings` with its kind and its meaning."""
    return field(default=default, metadata={"kind": kind, "doc": doc})


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a sidecar was told; field `x_y` is the variable `CACHEAWARE_X_Y`."""

    engine_url: str = setting(
        server_url(), "http://127.0.0.1:8000", "Where the engine of this pod listens."
    )
    metrics_path: str = setting(
        http_path(),
        "/metrics",
        "Path of the engine's metrics page (TensorRT-LLM: /prometheus/metrics).",
    )
    engine_base_path: str | None = setting(
        base_path(), None, "What comes before /v1 in the paths of the engine's API."
    )
    engine_ports: tuple[int, ...] = setting(
        ports(),
        (),
        "More ports of the same host where engines of this pod listen (data parallelism with a"
        " server for each rank); the pages of all are read and added up.",
    )
    engine_type: str = setting(
        choice("auto", *ENGINES), "auto", "The engine; auto recognises it by the names on its page."
    )
    port: int = setting(
        integer(1, 65535), 9440, "Where the sidecar listens, on IPv4 and, where there is, IPv6."
    )
    shared_dir: str = setting(
        absolute_path(80),
        "/var/run/cacheaware",
        "An emptyDir that the engine's container mounts at the same path: it holds wait.py, the"
        " drain socket and the phase.",
    )
    scrape_interval_seconds: float = setting(
        number(0.2, 60), 1.0, "Time between two looks at the metrics page."
    )
    scrape_timeout_seconds: float = setting(
        number(0.1, 60),
        5.0,
        "Longest time one look may take; a saturated engine answers late, and late is better than"
        " never.",
    )
    api_key_file: str | None = setting(
        absolute_path(),
        None,
        "File with the engine's API key, sent as a bearer token and read anew for each request.",
    )
    ca_file: str | None = setting(
        absolute_path(), None, "PEM file of the authority that signed the engine's certificate."
    )
    config_file: str | None = setting(
        absolute_path(),
        None,
        "The model's config.json, or the folder that holds it. Without a configuration bytes are"
        " unknown and all else goes on.",
    )
    config_url: str | None = setting(
        file_url(),
        None,
        "URL of the model's config.json, for example on a model hub; used only when set, and not"
        " together with CACHEAWARE_CONFIG_FILE.",
    )
    config_token_file: str | None = setting(
        absolute_path(),
        None,
        "File with the bearer token for CACHEAWARE_CONFIG_URL, read anew for each request.",
    )
    tensor_parallel: int = setting(
        integer(1, 1024), 1, "The engine's tensor-parallel size, for bytes."
    )
    pipeline_parallel: int = setting(
        integer(1, 1024), 1, "The engine's pipeline-parallel size, for bytes."
    )
    decode_context_parallel: int = setting(
        integer(1, 1024), 1, "The engine's decode-context-parallel size, for bytes."
    )
    kv_cache_dtype: str = setting(
        word(),
        "auto",
        "Type of the KV cache in the engine's words, for bytes; auto takes what the engine's page"
        " or the configuration says.",
    )
    warmup: bool = setting(on_off(), True, "Whether a pod is warmed up before it is ready.")
    warmup_budget_seconds: int = setting(
        integer(1, 86400), 120, "Longest time a warm-up may take once the engine is healthy."
    )
    warmup_verdict: str = setting(
        choice("Ready", "Fail"),
        "Ready",
        "When the budget is used up: Ready with a problem reported, or Fail, which keeps the pod"
        " not ready.",
    )
    max_batched_tokens: int | None = setting(
        integer(1, 1_000_000),
        None,
        "The engine's limit of tokens in one step (vLLM: --max-num-batched-tokens); one prompt of"
        " the warm-up is longer. Unset: a vLLM gets one of more than 8192 tokens, or the longest"
        " that it takes.",
    )
    max_model_length: int | None = setting(
        integer(1, 1_000_000_000),
        None,
        "Longest prompt plus answer in tokens; unset: what /v1/models or the configuration says.",
    )
    warmup_features: tuple[str, ...] = setting(
        features(),
        (),
        "What your requests use besides plain prompts, to be warmed up as well; lora is each"
        " adapter that /v1/models lists.",
    )
    hot_prefixes_file: str | None = setting(
        absolute_path(),
        None,
        "Prompts to load into the prefix cache at the end of the warm-up: a file, or a folder such"
        " as a mounted ConfigMap.",
    )
    model: str | None = setting(
        word(), None, "Model name in warm-up requests; unset: the first that /v1/models names."
    )
    grace_seconds: int = setting(integer(1, 86400), 30, "The pod's terminationGracePeriodSeconds.")
    engine_shutdown_seconds: int = setting(
        integer(0, 86400),
        0,
        "What the engine needs after SIGTERM (vLLM: --shutdown-timeout). A drain ends this and"
        f" {MARGIN_S} seconds before the grace period does.",
    )
    drain_floor_seconds: int = setting(
        integer(0, 3600),
        5,
        "Shortest drain: until then a load balancer may still send new requests.",
    )
    role: str = setting(
        choice("Both", "Prefill", "Decode"),
        "Both",
        "Prefill and Decode pods hand KV over: they are empty when none is pinned any more, or"
        " after CACHEAWARE_KV_TRANSFER_TIMEOUT_SECONDS.",
    )
    kv_transfer_timeout_seconds: int = setting(
        integer(1, 86400),
        480,
        "After this the engine's connector lets go of KV that nobody has fetched (vLLM: 480; since"
        " NIXL has leases, kv_lease_duration, 30).",
    )
    operator_account: str | None = setting(
        pattern(
            r"system:serviceaccount:[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
            r":[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?",
            "system:serviceaccount:NAMESPACE:NAME",
        ),
        None,
        "The ServiceAccount of the operator, the only one whose control calls (cordon, uncordon,"
        " deadline) are taken. Unset: none are.",
    )
    token_dir: str = setting(
        absolute_path(),
        "/var/run/secrets/kubernetes.io/serviceaccount",
        "Folder with the pod's own token and the cluster's ca.crt; with them the keys are fetched"
        " that the operator's tokens are checked with.",
    )
    pod_uid: str | None = setting(
        pattern(r"[0-9A-Za-z-]{1,64}", "a uid: up to 64 letters, digits and -"),
        None,
        "The pod's own uid (downward API, metadata.uid); unset: the one in the pod's own token.",
    )
    relief: bool = setting(
        on_off(),
        False,
        "Whether the pod may cordon itself where its KV cache is full while requests wait. The"
        " sidecar knows no other pod: where all are full, all may go.",
    )
    relief_usage_percent: int = setting(
        integer(50, 100), 98, "The usage from which on the cache is full."
    )
    relief_after_seconds: int = setting(
        integer(5, 3600), 60, "So long it must be full, with requests waiting, at each look."
    )
    relief_cordon_seconds: int = setting(
        integer(15, 300), 60, "How long such a cordon lasts; it ends sooner where there is room."
    )
    relief_every_seconds: int = setting(
        integer(60, 86400),
        600,
        "Between two such cordons, and from the sidecar's start to the first.",
    )
    relief_abort: bool = setting(
        on_off(),
        False,
        "Whether, 10 s after such a cordon, what is in flight is aborted if the cache is still"
        " full: by routes of vLLM's development mode, or SGLang's /abort_request.",
    )
    canary_seconds: int | None = setting(
        integer(60, 86400),
        None,
        "How often the engine is asked the canary, a fixed prompt whose log probabilities are held"
        " against a baseline, while the pod serves and nothing waits. Unset: never.",
    )
    canary_file: str | None = setting(
        absolute_path(),
        None,
        "The baseline, a file of `cacheaware probe canary --save` such as a mounted ConfigMap;"
        " unset: the pod's own first runs are it.",
    )
    log_format: str = setting(choice("text", "json"), "text", "How log lines look.")

    @property
    def drain_seconds(self) -> int:
        """Longest drain: the grace period without the engine's own shutdown and a margin."""
        return self.grace_seconds - self.after_drain_seconds

    @property
    def handover(self) -> Handover:
        """What the pod does with the KV of requests that are done."""
        return Handover(role=self.role, timeout_s=float(self.kv_transfer_timeout_seconds))

    @property
    def engine_urls(self) -> tuple[str, ...]:
        """Where all engines of the pod listen, the main one first."""
        parts = urlsplit(self.engine_url)
        host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
        more = (port for port in self.engine_ports if port != self.engine_port)
        return (self.engine_url, *(f"{parts.scheme}://{host}:{port}" for port in more))

    @property
    def engine_port(self) -> int:
        """The main engine's port."""
        parts = urlsplit(self.engine_url)
        return parts.port or (443 if parts.scheme == "https" else 80)

    @property
    def all_ports(self) -> frozenset[int]:
        """The ports of all engines of the pod."""
        return frozenset({self.engine_port, *self.engine_ports})

    @property
    def after_drain_seconds(self) -> int:
        """What must be left of the grace period when a drain ends."""
        return self.engine_shutdown_seconds + MARGIN_S


def variable(name: str) -> str:
    """The environment variable of a field."""
    return PREFIX + name.upper()


def load(environ: Mapping[str, str]) -> Settings:
    """Settings from the environment; an empty value counts as unset.

    Raises:
        SettingsError: a value is not allowed, or two values contradict each other.
    """
    given = {name: value for name, value in _given(environ) if value}
    values = {
        f.name: _read(f.name, f.metadata["kind"], given)
        for f in fields(Settings)
        if f.name in given
    }
    settings = Settings(**values)
    _cross_check(settings)
    return settings


def _given(environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for f in fields(Settings):
        text = environ.get(variable(f.name), "").strip()
        if not (f.name == "port" and SERVICE_LINK.fullmatch(text)):
            yield f.name, text


def _read(name: str, kind: Kind, given: Mapping[str, str]) -> Any:
    try:
        return kind.parse(given[name])
    except (ValueError, KeyError):
        value = "the value" if kind.secret else repr(given[name])
        raise SettingsError(
            f"{variable(name)}: {value} is not allowed; allowed: {kind.allowed}"
        ) from None


def _cross_check(settings: Settings) -> None:
    if settings.config_file and settings.config_url:
        raise SettingsError(
            "CACHEAWARE_CONFIG_URL is set beside CACHEAWARE_CONFIG_FILE; allowed: one of the two"
        )
    if settings.canary_file and not settings.canary_seconds:
        raise SettingsError(
            f"CACHEAWARE_CANARY_FILE: {settings.canary_file!r} is set without"
            " CACHEAWARE_CANARY_SECONDS; allowed: both"
        )
    if settings.relief_abort and not settings.relief:
        raise SettingsError(
            "CACHEAWARE_RELIEF_ABORT: on is not allowed while CACHEAWARE_RELIEF is off; allowed:"
            " both on"
        )
    if settings.relief_every_seconds <= settings.relief_cordon_seconds:
        raise SettingsError(
            f"CACHEAWARE_RELIEF_EVERY_SECONDS: {settings.relief_every_seconds} would keep the pod"
            " out for ever; allowed: more than CACHEAWARE_RELIEF_CORDON_SECONDS"
            f" {settings.relief_cordon_seconds}"
        )
    least = settings.engine_shutdown_seconds + settings.drain_floor_seconds + MARGIN_S
    if settings.grace_seconds < least:
        raise SettingsError(
            f"CACHEAWARE_GRACE_SECONDS: {settings.grace_seconds} leaves no time to drain; allowed:"
            f" at least {least} (CACHEAWARE_ENGINE_SHUTDOWN_SECONDS"
            f" {settings.engine_shutdown_seconds} + CACHEAWARE_DRAIN_FLOOR_SECONDS"
            f" {settings.drain_floor_seconds} + {MARGIN_S})"
        )


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables that look like ours and are none, such as a misspelt one; said once in the log."""
    known = {variable(f.name) for f in fields(Settings)}
    links = re.compile(PREFIX + r"(.*_)?(SERVICE_(HOST|PORT.*)|PORT(_[0-9]+_.*)?)")
    ours = (name for name in environ if name.startswith(PREFIX) and name not in known)
    return sorted(name for name in ours if not links.fullmatch(name))


def table() -> str:
    """The settings as a Markdown table."""
    rows = ["| variable | default | allowed | meaning |", "| --- | --- | --- | --- |"]
    rows += (
        f"| `{variable(f.name)}` | {_shown(f.default)} | {f.metadata['kind'].allowed}"
        f" | {f.metadata['doc']} |"
        for f in fields(Settings)
    )
    return "\n".join(rows)


def _shown(default: Any) -> str:
    if default is None or default == ():
        return ""
    if isinstance(default, bool):
        return "`on`" if default else "`off`"
    return f"`{default:g}`" if isinstance(default, float) else f"`{default}`"


if __name__ == "__main__":
    print(table())  # noqa: T201 - printing is what this command does
