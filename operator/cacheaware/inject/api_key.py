"""The engine's API key: the sidecar's warm-up needs it, too, as a file out of the same Secret."""

from typing import Any

from cacheaware.inject.pod import KEY, Pod

VARIABLES = {"vllm": "VLLM_API_KEY", "tgi": "API_KEY", "llamacpp": "LLAMA_API_KEY"}
FILE = "api-key"
READABLE = 0o444


def key_secret(pod: Pod) -> Any:
    """The `secretKeyRef` that the engine's key comes from; None where there is none."""
    if "CACHEAWARE_API_KEY_FILE" in (pod.options.env or {}):
        return None
    return (variable_of(pod).get("valueFrom") or {}).get("secretKeyRef")


def variable_of(pod: Pod) -> Any:
    """The variable of the engine's container that holds its key; empty where there is none."""
    flag = pod.engine.flags.get("api-key", "")
    wanted = {VARIABLES.get(pod.engine.kind or ""), flag.strip("${}()") if "$" in flag else None}
    found = (one for one in pod.container.get("env") or () if one.get("name") in wanted)
    return next(found, {})


def key_volume(secret: Any) -> dict[str, Any]:
    """The volume with the key as a file."""
    source = {
        "secretName": secret.get("name"),
        "items": [{"key": secret.get("key"), "path": FILE}],
        "defaultMode": READABLE,
    }
    if secret.get("optional"):
        source["optional"] = True
    return {"name": KEY, "secret": source}


def note_plain_key(pod: Pod) -> None:
    """Say that a key which stands in the manifest itself is not passed on."""
    flag = pod.engine.flags.get("api-key", "")
    plain = variable_of(pod).get("value") is not None or (flag and "$" not in flag)
    if plain and "CACHEAWARE_API_KEY_FILE" not in (pod.options.env or {}):
        pod.notes.append(
            f"the API key of {pod.engine.name} stands in the manifest and was not given to the"
            " sidecar, whose warm-up will be answered with 401: put it into a Secret"
        )
