"""What inject can be told, and how that is kept in the manifest for the next run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from enum import StrEnum
from typing import Any

from cacheaware_sidecar.settings import PREFIX, Settings, SettingsError, load, variable

ACCOUNT = "system:serviceaccount:cacheaware-system:cacheaware"
"""The operator's, where the chart is installed as `cacheaware` in `cacheaware-system`."""
REPOSITORY = "docker.io/cacheaware/sidecar"
BESIDE = {
    variable("grace_seconds"): "86400",
    variable("relief"): "on",
    variable("relief_cordon_seconds"): "15",
    variable("relief_every_seconds"): "86400",
    variable("canary_seconds"): "86400",
}
"""Settings beside which any one that is allowed is; all together are checked with the pod."""
OWN_OPTION = {
    "grace_seconds": "--grace",
    "port": "--port",
    "operator_account": "--operator-account",
    "shared_dir": None,
    "token_dir": None,
    "pod_uid": None,
}
"""Settings that inject writes itself, because other places of the pod have to agree with them."""


class OptionError(ValueError):
    """One clear line: the option, its value and what is allowed."""


class HookForm(StrEnum):
    """How the engine's preStop hook waits."""

    AUTO = "auto"
    """exec; http where the engine's image has no Python."""
    EXEC = "exec"
    HTTP = "http"


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a user told; None is not told."""

    image: str | None = None
    container: str | None = None
    operator_account: str | None = None
    port: int | None = None
    grace: int | None = None
    hook: str | None = None
    replace_hook: bool | None = None
    gate_engine: bool | None = None
    mesh: bool | None = None
    project_token: bool | None = None
    env: Mapping[str, str] | None = None
    mounts: Mapping[str, str] | None = None
    """Mount path in the sidecar by the name of a volume that the pod has."""

    def told(self) -> dict[str, Any]:
        """Only what was told."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def over(self, earlier: Mapping[str, Any]) -> "Options":
        """These options, and those of an earlier run where these say nothing."""
        known = {f.name for f in fields(Options)}
        kept = {name: value for name, value in earlier.items() if name in known}
        return Options(**{**kept, **self.told()})


def checked_env(texts: list[str]) -> dict[str, str]:
    """Settings of the sidecar out of NAME=VALUE.

    Raises:
        OptionError: no such setting, or not such a value.
    """
    return dict(map(checked_variable, texts))


def checked_variable(text: str) -> tuple[str, str]:
    """One setting.

    Raises:
        OptionError: no such setting, or not such a value.
    """
    name, equals, value = text.partition("=")
    known = {variable(f.name): f.name for f in fields(Settings)}
    if not equals or name not in known:
        raise OptionError(
            f"--env is {text!r}: allowed is NAME=VALUE with a setting of the sidecar, such as"
            f" {PREFIX}WARMUP=off"
        )
    if known[name] in OWN_OPTION:
        instead = OWN_OPTION[known[name]]
        raise OptionError(
            f"--env is {text!r}: inject sets that itself" + (f"; use {instead}" if instead else "")
        )
    try:
        load({**BESIDE, name: value})
    except SettingsError as error:
        raise OptionError(f"--env {error}") from error
    return name, value


def checked_mounts(texts: list[str]) -> dict[str, str]:
    """Mount paths by volume out of VOLUME:PATH.

    Raises:
        OptionError: not of that form.
    """
    pairs = [text.partition(":") for text in texts]
    for text, (name, _, path) in zip(texts, pairs, strict=True):
        if not name or not path.startswith("/") or ":" in path:
            raise OptionError(
                f"--mount is {text!r}: allowed is VOLUME:/PATH with a volume of the pod, such as"
                " model:/models"
            )
    return {name: path for name, _, path in pairs}


def checked_account(text: str) -> str:
    """The operator's ServiceAccount.

    Raises:
        OptionError: it is none.
    """
    try:
        load({variable("operator_account"): text})
    except SettingsError as error:
        raise OptionError(
            f"--operator-account is {text!r}: allowed is system:serviceaccount:NAMESPACE:NAME"
        ) from error
    return text
