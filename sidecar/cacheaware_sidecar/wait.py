"""Waits until the engine is empty: the engine's preStop hook, run in the engine's own container.

The sidecar puts this file and wait.json into the shared folder; the hook is
`python3 -I -S /var/run/cacheaware/wait.py`. It asks the sidecar over its socket to begin the final
drain and waits for its word. Where the sidecar is dead, restarting or silent, it reads the
engine's metrics page itself, by the same rule and to the same deadline, so that a dead sidecar
costs no request. It ends with code 0 in any case, because a failing hook changes nothing.

Standard library and syntax of Python 3.6 only: it runs with whatever the engine's image has.
"""

import http.client
import json
import socket
import sys
import time
from pathlib import Path
from typing import Any, Dict, List, Optional, Tuple
from urllib.parse import urljoin, urlsplit

POLL_S = 1.0
ANSWER_S = 5.0
"""A page, or a sign of life of the sidecar, has to come within this time."""
PROOF = 3
"""So many refused connections in a row: the engine has ended."""
HUNG_S = 30.0
"""An engine that has answered and read nothing for so long sends nothing to its clients either."""
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
REFUSED, SILENT, BROKEN = "refused", "silent", "broken"
LARGEST_PAGE = 16 * 1024 * 1024
REDIRECTS = 3

DEFAULTS = {
    "urls": ["http://127.0.0.1:8000"],
    "path": "/metrics",
    "drain_s": 25.0,
    "floor_s": 5.0,
    "quiet_s": 5.0,
    "ca_file": None,
    "api_key_file": None,
    "counts": [
        [["vllm:num_requests_running"], ["vllm:num_requests_waiting"]],
        [["ray_vllm_num_requests_running"], ["ray_vllm_num_requests_waiting"]],
        [["sglang:num_running_reqs"], ["sglang:num_queue_reqs"]],
        [["tgi_batch_current_size"], ["tgi_queue_size"]],
        [["trtllm_num_requests_running"], ["trtllm_num_requests_waiting"]],
        [
            ['nv_trt_llm_request_metrics{request_type="active"}'],
            ['nv_trt_llm_request_metrics{request_type="waiting"}'],
        ],
        [["llamacpp:requests_processing"], ["llamacpp:requests_deferred"]],
        [["lmdeploy:num_requests_running"], ["lmdeploy:num_requests_waiting"]],
        [["running_requests"], ["pending_requests"]],
    ],
    "counters": [],
}  # type: Dict[str, Any]
"""What wait.json overrides. `counts`: per engine the names of what runs and of what waits;
`counters`: names of what stands still in an empty engine."""


class SidecarGoneError(Exception):
    """The sidecar can't be reached or has fallen silent."""


class MissingPageError(Exception):
    """The metrics page can't be read."""


def load_settings(folder: Path) -> Dict[str, Any]:
    """wait.json over the defaults; a file that can't be read leaves the defaults."""
    settings = dict(DEFAULTS)
    try:
        with (folder / "wait.json").open(encoding="utf-8") as file:
            given = json.load(file)
        for key, default in DEFAULTS.items():
            if default is None or isinstance(given[key], type(default)):
                settings[key] = given[key]
    except (OSError, ValueError, TypeError, KeyError):
        pass
    return settings


def ask_sidecar(folder: Path, deadline: float) -> str:
    """Begins the final drain and waits for its end; returns the outcome.

    Raises:
        SidecarGoneError: no socket, an error, or silence.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
            link.settimeout(ANSWER_S)
            link.connect(str(folder / "drain.sock"))
            link.sendall(b'{"drain": "wait"}\n')
            return read_outcome(link, deadline)
    except (OSError, ValueError, AttributeError, RecursionError) as error:
        raise SidecarGoneError(f"{type(error).__name__}: {error}") from None


def read_outcome(link: socket.socket, deadline: float) -> str:
    """Reads progress lines until one tells the outcome or the deadline is over."""
    pending = b""
    while time.monotonic() < deadline + POLL_S:
        while b"\n" in pending:
            line, pending = pending.split(b"\n", 1)
            told = json.loads(line.decode())
            if told.get("state") in ("done", "deadline"):
                return str(told.get("text"))
            if told.get("state") != "waiting":
                raise SidecarGoneError("the sidecar does not know this drain")
        data = link.recv(4096)
        if not data or len(pending) > 65536:
            raise SidecarGoneError("the sidecar hung up")
        pending += data
    return "deadline"


def poll_engine(settings: Dict[str, Any], began: float, deadline: float) -> str:
    """Reads the engine's page each second until it is empty; returns the outcome."""
    watch = Watch()
    floor = began + float(settings["floor_s"])
    while time.monotonic() < deadline:
        started = time.monotonic()
        look, rest = look_at(settings, deadline), read_rest(settings["urls"])
        now = time.monotonic()
        watch.take(look, rest, now)
        if watch.refused >= PROOF:
            return "the engine has ended"
        if watch.silent_since is not None and now - watch.silent_since >= HUNG_S:
            return "the engine is hung"
        since = watch.quiet_since
        if since is not None and now >= floor and now - since >= settings["quiet_s"]:
            return "empty"
        time.sleep(max(0.0, min(started + POLL_S, deadline) - now))
    return "deadline"


class Look:
    """What the pages of all engines say together; `missing` is why there is none."""

    def __init__(
        self,
        missing: Optional[str] = None,
        requests: float = 0.0,
        series: int = 0,
        counted: Optional[float] = None,
    ) -> None:
        self.missing = missing
        self.requests = requests
        self.series = series
        self.counted = counted
        """The sum of all counters; None without any."""


class Rest:
    """What lies in the engines' connections."""

    def __init__(self, unsent: int = 0, unread: int = 0, abandoned: int = 0) -> None:
        self.unsent = unsent
        self.unread = unread
        self.abandoned = abandoned
        """Unread bytes of clients that have gone."""


class Watch:
    """What the looks have shown so far."""

    def __init__(self) -> None:
        self.quiet_since = None  # type: Optional[float]
        self.silent_since = None  # type: Optional[float]
        self.refused = 0
        self.counted = None  # type: Optional[float]
        self.series = 0
        self.unsent = None  # type: Optional[int]

    def take(self, look: Look, rest: Optional[Rest], now: float) -> None:
        """Takes one more look into account; the rest is None where it can't be read."""
        self.refused = self.refused + 1 if look.missing == REFUSED else 0
        silent = look.missing == SILENT and not self.is_alive(rest)
        if self.silent_since is None or not silent:
            self.silent_since = now if silent else None
        self.unsent = rest.unsent if silent and rest else None
        empty = self.is_empty(look, rest)
        if self.quiet_since is None or not empty:
            self.quiet_since = now if empty else None

    def is_alive(self, rest: Optional[Rest]) -> bool:
        """Whether the engine reads what comes to it, or the kernel still sends for it."""
        if rest is None:
            return False
        shrinks = self.unsent is not None and rest.unsent < self.unsent
        return shrinks or not (rest.unread or rest.abandoned)

    def is_empty(self, look: Look, rest: Optional[Rest]) -> bool:
        """Whether nothing runs, waits or has moved, on pages that are complete."""
        if look.missing:
            return False
        self.series = max(self.series, look.series)
        moved = self.counted is not None and look.counted != self.counted
        self.counted = look.counted
        waited_for = rest is not None and bool(rest.unsent or rest.unread)
        return look.requests == 0 and look.series == self.series and not (moved or waited_for)


def look_at(settings: Dict[str, Any], deadline: float) -> Look:
    """Reads the page of every engine of the pod.

    Only where all refuse nobody is there, and only where none answers they are silent.
    """
    pages, missing = [], []
    for base in settings["urls"]:
        try:
            pages.append(fetch(base, settings, deadline))
        except ConnectionRefusedError:
            missing.append(REFUSED)
        except socket.timeout:  # noqa: UP041 - no TimeoutError before Python 3.10
            missing.append(SILENT)
        except Exception:  # noqa: BLE001 - whatever it is, a missing page is not empty
            missing.append(BROKEN)
    if not missing:
        return read_pages(pages, settings)
    if pages or BROKEN in missing:
        return Look(BROKEN)
    return Look(SILENT if SILENT in missing else REFUSED)


def read_pages(pages: List[str], settings: Dict[str, Any]) -> Look:
    """Adds up what the pages say; without counts of requests on one of them there is nothing."""
    requests, series = 0.0, 0
    counted = None  # type: Optional[float]
    for page in pages:
        try:
            found, named = count_requests(page, settings["counts"])
        except MissingPageError:
            return Look(BROKEN)
        requests, series = requests + found, series + named
        samples = [sample for sample in map(parse_line, page.split("\n")) if sample]
        values = pick(settings["counters"], samples)
        counted = (counted or 0.0) + sum(values) if values else counted
    return Look(None, requests, series, counted)


def read_rest(urls: List[str]) -> Optional[Rest]:
    """What still lies in the engines' connections; None where the kernel's tables can't be read.

    The containers of a pod share their network, so /proc/net shows the engine's sockets (proc(5)).
    """
    ports = {urlsplit(url).port or (443 if url.startswith("https") else 80) for url in urls}
    rest, seen = Rest(), False
    for table in TABLES:
        try:
            lines = table.read_text(encoding="ascii").split("\n")[1:]
        except FileNotFoundError:
            continue  # no IPv6
        except (OSError, ValueError):
            return None
        seen = True
        for fields in (line.split() for line in lines):
            if len(fields) > 4 and int(fields[1].rpartition(":")[2], 16) in ports:
                add_socket(rest, fields[3], *(int(part, 16) for part in fields[4].split(":")))
    return rest if seen else None


def add_socket(rest: Rest, state: str, unsent: int, unread: int) -> None:
    """Adds a row of the table: 06 is TIME_WAIT, 0A LISTEN, 01 ESTABLISHED (tcp_states.h)."""
    if state == "06":
        return
    if state != "0A":
        rest.unsent += unsent
    if state in ("01", "0A"):
        rest.unread += unread
    else:
        rest.abandoned += unread


def fetch(base: str, settings: Dict[str, Any], deadline: float) -> str:
    """An engine's metrics page; redirects are followed on the same host and port only.

    Raises:
        MissingPageError: it answered something else than a page.
        OSError: it did not answer.
    """
    url = urljoin(base, settings["path"])
    until = min(time.monotonic() + ANSWER_S, deadline)
    for _ in range(REDIRECTS + 1):
        status, location, page = get(url, settings, until)
        if status == 200:
            return page
        target = urlsplit(urljoin(url, location or ""))
        if status not in (301, 302, 303, 307, 308) or target[:2] != urlsplit(url)[:2]:
            break
        url = target.geturl()
    raise MissingPageError("no metrics page")


def get(url: str, settings: Dict[str, Any], until: float) -> Tuple[int, Optional[str], str]:
    """One request: status, location and body, all within a time and a size."""
    parts = urlsplit(url)
    connection = connect(parts, settings, max(0.1, until - time.monotonic()))
    try:
        path = parts.path + ("?" + parts.query if parts.query else "")
        connection.request("GET", path, headers=headers(settings))
        response = connection.getresponse()
        body = b""
        while True:
            data = response.read1(65536)
            if not data:
                return response.status, response.getheader("location"), body.decode("utf-8")
            body += data
            if len(body) > LARGEST_PAGE or time.monotonic() > until:
                raise MissingPageError("the page is too large or too slow")
    finally:
        connection.close()


def connect(parts: Any, settings: Dict[str, Any], timeout: float) -> http.client.HTTPConnection:
    """A connection; TLS is verified where the authority's file can be read in this container."""
    host = parts.hostname
    if parts.scheme != "https":
        return http.client.HTTPConnection(host, parts.port or 80, timeout=timeout)
    import ssl  # noqa: PLC0415 - some images have a Python without it

    context = ssl.create_default_context()
    try:
        context.load_verify_locations(settings["ca_file"])
    except (OSError, TypeError, ValueError):
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return http.client.HTTPSConnection(host, parts.port or 443, timeout=timeout, context=context)


def headers(settings: Dict[str, Any]) -> Dict[str, str]:
    """The engine's API key, where its file is mounted into this container too."""
    try:
        key = Path(settings["api_key_file"]).read_text(encoding="ascii").strip()
    except (OSError, TypeError, ValueError):
        return {}
    return {"Authorization": "Bearer " + key}


def count_requests(page: str, counts: List[List[List[str]]]) -> Tuple[float, int]:
    """(requests running and waiting, series they were read from).

    Raises:
        MissingPageError: no engine's names are on the page.
    """
    samples = [sample for sample in map(parse_line, page.split("\n")) if sample]
    total, series = 0.0, 0
    for running, waiting in counts:
        found = [pick(names, samples) for names in (running, waiting)]
        if all(found):
            total += sum(abs(value) for values in found for value in values)
            series += sum(map(len, found))
    if not series:
        raise MissingPageError("no counts of requests on the page")
    return total, series


def pick(names: List[str], samples: List[Tuple[str, str, float]]) -> List[float]:
    """The values of all samples of these names; a name may demand one label."""
    wanted = [name.rstrip("}").partition("{") for name in names]
    return [
        value
        for name, labels, value in samples
        if any(name == metric and label in labels for metric, _, label in wanted)
    ]


def parse_line(line: str) -> Optional[Tuple[str, str, float]]:
    """(name, labels, value) of a line of the page; None for comments and for what is no sample."""
    if line.startswith("#"):
        return None
    head, brace, rest = line.partition("{")
    name, labels, tail = head, "", ""
    if brace:
        labels, _, tail = rest.rpartition("}")
    else:
        name, _, tail = line.partition(" ")
    try:
        return name.strip(), labels, float(tail.split()[0])
    except (ValueError, IndexError):
        return None


def main(folder: Path) -> int:
    """Waits and prints one line of outcome."""
    began = time.monotonic()
    settings = load_settings(folder)
    deadline = began + float(settings["drain_s"])
    try:
        outcome, by = ask_sidecar(folder, deadline), "the sidecar"
    except SidecarGoneError as error:
        outcome = poll_engine(settings, began, deadline)
        by = f"the engine's page, because the sidecar is gone ({error})"
    seconds = time.monotonic() - began
    print(f"cacheaware: {outcome} after {seconds:.1f} s, says {by}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(Path(__file__).resolve().parent))
