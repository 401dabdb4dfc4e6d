"""The user's own hot prefixes: a file or a folder (a mounted ConfigMap), read once each warm-up.

A folder holds one prefix in each file; names that begin with a dot are left out (a ConfigMap's own
links are such). What a file is, its name tells:

- `NAME.json`: an object, or a list of them, each of which is a prefix: `{"messages": [...]}`, with
  `tools` if need be, for the chat API, or `{"prompt": "..."}`; `model` names an adapter.
- `NAME.jsonl`: one such object in each line.
- any other name: the whole text is one prompt for the completions API.
"""

import json
from pathlib import Path
from typing import Any

from cacheaware_sidecar.small_files import read_small
from cacheaware_sidecar.warmup_plan import HotPrefix

MOST = 64
LARGEST = 1 << 20
"""Bytes of all files together; a ConfigMap holds no more."""
ALLOWED = frozenset({"prompt", "messages", "tools", "model"})


def read(path: Path) -> tuple[tuple[HotPrefix, ...], tuple[str, ...]]:
    """The prefixes, and one line for each that can't be used."""
    found: list[HotPrefix] = []
    problems: list[str] = []
    left = LARGEST
    try:
        files = _files(path)
    except OSError as error:
        return (), (f"hot prefixes: {path} can't be read ({error.strerror or error})",)
    for file in files:
        try:
            data = read_small(file, left)
            left -= len(data)
            found += parse(_shown(file), data.decode())
        except OSError as error:
            problems.append(f"hot prefixes: {_shown(file)}: {error.strerror or error}")
        except UnicodeDecodeError:
            problems.append(f"hot prefixes: {_shown(file)}: it is no text; allowed: UTF-8")
        except (ValueError, RecursionError) as error:
            problems.append(f"hot prefixes: {_shown(file)}: {error}")
    if len(found) > MOST:
        problems.append(f"hot prefixes: {len(found)} are given; the first {MOST} are loaded")
    return tuple(found[:MOST]), tuple(problems)


def _shown(file: Path) -> str:
    """Its name as text: the bytes of a name need not be UTF-8."""
    return file.name.encode("utf-8", "replace").decode()


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(each for each in path.iterdir() if each.name[0] != "." and not each.is_dir())


def parse(name: str, text: str) -> list[HotPrefix]:
    """The prefixes in a file.

    Raises:
        ValueError: It holds something else; the message says what is allowed.
    """
    if name.endswith(".jsonl"):
        entries = [_json(line) for line in text.splitlines() if line.strip()]
    elif name.endswith(".json"):
        value = _json(text)
        entries = value if isinstance(value, list) else [value]
    else:
        entries = [{"prompt": text}]
    several = len(entries) > 1
    names = (f"{name}#{number}" if several else name for number in range(1, len(entries) + 1))
    return [HotPrefix(each, _body(entry)) for each, entry in zip(names, entries, strict=True)]


def _json(text: str) -> Any:
    """What the text holds, if it can be sent on as it is.

    Raises:
        ValueError: It is no JSON (RFC 8259), or holds half a surrogate pair, which no UTF-8 has.
    """
    value = json.loads(text, parse_constant=_refuse_constant)
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair; allowed: whole characters") from None
    return value


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is no JSON; allowed: numbers")


def _body(entry: Any) -> dict[str, Any]:
    right = (
        isinstance(entry, dict)
        and entry.keys() <= ALLOWED
        and ("prompt" in entry) is not ("messages" in entry)
        and isinstance(entry.get("prompt", ""), str)
        and all(isinstance(entry.get(each, []), list) for each in ("messages", "tools"))
        and isinstance(entry.get("model", ""), str)
        and bool(entry.get("prompt") or entry.get("messages"))
    )
    if not right:
        raise ValueError(
            'allowed: {"prompt": "..."} or {"messages": [...], "tools": [...]}, and "model"'
        )
    return dict(entry)
