"""A small Kubernetes API server in memory: enough of it to run the whole operator against.

Lists are paged, watches replay and give bookmarks, writes bump resourceVersions and refuse old
ones, merge patches are applied, subresources are kept apart, and faults can be planted.
"""

import asyncio
import contextlib
import copy
import json
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from aiohttp import web

from cacheaware import names

KINDS = {
    ("", "v1", "namespaces"): ("Namespace", False, ()),
    ("", "v1", "pods"): ("Pod", True, ("status",)),
    ("", "v1", "secrets"): ("Secret", True, ()),
    ("", "v1", "serviceaccounts"): ("ServiceAccount", True, ("token",)),
    ("policy", "v1", "poddisruptionbudgets"): ("PodDisruptionBudget", True, ()),
    ("", "v1", "events"): ("Event", True, ()),
    ("apps", "v1", "deployments"): ("Deployment", True, ("status", "scale")),
    ("apps", "v1", "statefulsets"): ("StatefulSet", True, ("status", "scale")),
    ("apps", "v1", "daemonsets"): ("DaemonSet", True, ("status",)),
    ("autoscaling", "v2", "horizontalpodautoscalers"): ("HorizontalPodAutoscaler", True, ()),
    ("coordination.k8s.io", "v1", "leases"): ("Lease", True, ()),
    ("apiextensions.k8s.io", "v1", "customresourcedefinitions"): (
        "CustomResourceDefinition",
        False,
        ("status",),
    ),
    (names.GROUP, names.VERSION, names.PLURAL): (names.KIND, True, ("status",)),
}
KEDA = ("keda.sh", "v1alpha1", "scaledobjects")


@dataclass
class Call:
    """A request as it came."""

    method: str
    path: str
    query: dict[str, str]
    body: Any
    content_type: str
    authorization: str
    at: float


@dataclass
class Fault:
    """Answers matching requests with something bad, `times` times (None: for ever)."""

    matches: Callable[[str, str], bool]
    status: int = 500
    reason: str = "InternalError"
    times: int | None = None
    headers: dict[str, str] = field(default_factory=dict)
    hang: bool = False


@dataclass(frozen=True)
class Route:
    """A parsed path."""

    resource: tuple[str, str, str]
    namespace: str | None
    name: str | None
    subresource: str | None

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.resource, self.namespace, self.name)


class FakeApi:
    """The server; `url` after start."""

    def __init__(self) -> None:
        self.kinds = dict(KINDS)
        self.objects: dict[tuple[Any, ...], dict[str, Any]] = {}
        self.calls: list[Call] = []
        self.faults: list[Fault] = []
        self.version = 1000
        self.oldest = 0
        self.log: list[tuple[int, Route, str, dict[str, Any]]] = []
        self.changed = asyncio.Condition()
        self.bookmark_seconds = 0.5
        self.tokens: set[str] | None = None
        self.silent_watches = False
        self.minted = 0
        """Tokens made."""
        self.proxied: Callable[[web.Request], Awaitable[web.StreamResponse]] | None = None
        """Answers what is asked of pods through the proxy."""
        self.store: Callable[[Route, dict[str, Any]], dict[str, Any]] = lambda _, body: body
        self.url = ""
        self._runner: web.AppRunner | None = None

    # --- running

    async def __aenter__(self) -> Self:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{tail:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._runner.cleanup()

    # --- what tests use

    async def put(self, resource: tuple[str, str, str], body: dict[str, Any]) -> dict[str, Any]:
        """Create or replace an object, as some other client would."""
        meta = body.setdefault("metadata", {})
        route = Route(resource, meta.get("namespace"), meta["name"], None)
        old = self.objects.get(route.key)
        meta.setdefault("uid", old["metadata"]["uid"] if old else str(uuid.uuid4()))
        meta.setdefault("creationTimestamp", now())
        meta.setdefault("generation", 1)
        body.setdefault("kind", self.kinds[resource][0])
        body.setdefault("apiVersion", "/".join(part for part in resource[:2] if part))
        return await self._save(route, body, "MODIFIED" if old else "ADDED")

    async def edit(self, resource: tuple[str, str, str], ns: str, name: str, patch: Any) -> Any:
        """Merge something into an object, as some other client would."""
        route = Route(resource, ns, name, None)
        body = merged(self.objects[route.key], patch)
        if "spec" in patch:
            body["metadata"]["generation"] = body["metadata"].get("generation", 1) + 1
        return await self._save(route, body, "MODIFIED")

    async def delete(self, resource: tuple[str, str, str], ns: str | None, name: str) -> None:
        route = Route(resource, ns, name, None)
        body = self.objects.pop(route.key)
        await self._publish(route, "DELETED", copy.deepcopy(body))

    def get(self, resource: tuple[str, str, str], ns: str | None, name: str) -> dict[str, Any]:
        return self.objects[Route(resource, ns, name, None).key]

    def all(self, resource: tuple[str, str, str], ns: str | None = None) -> list[dict[str, Any]]:
        found = [
            body
            for (kind, space, _), body in self.objects.items()
            if kind == resource and ns in (None, space)
        ]
        return sorted(found, key=lambda body: body["metadata"]["name"])

    def writes(self) -> list[Call]:
        """Everything that changed something, the Lease aside."""
        return [c for c in self.calls if c.method != "GET" and "/leases" not in c.path]

    def forget_history(self) -> None:
        """From now on older versions are 410 Gone."""
        self.oldest = self.version

    # --- inside

    async def _save(self, route: Route, body: dict[str, Any], event: str) -> dict[str, Any]:
        self.version += 1
        body = copy.deepcopy(body)
        body["metadata"]["resourceVersion"] = str(self.version)
        self.objects[route.key] = body
        await self._publish(route, event, copy.deepcopy(body), self.version)
        return body

    async def _publish(
        self, route: Route, event: str, body: dict[str, Any], version: int | None = None
    ) -> None:
        if version is None:
            self.version += 1
            version = self.version
            body["metadata"]["resourceVersion"] = str(version)
        self.log.append((version, route, event, body))
        async with self.changed:
            self.changed.notify_all()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.json() if request.can_read_body else None
        call = Call(
            request.method,
            request.path,
            dict(request.query),
            body,
            request.content_type,
            request.headers.get("Authorization", ""),
            asyncio.get_running_loop().time(),
        )
        self.calls.append(call)
        if (
            self.tokens is not None
            and call.authorization.removeprefix("Bearer ").removeprefix("bearer ")
            not in self.tokens
        ):
            return failure(401, "Unauthorized")
        for fault in self.faults:
            if fault.matches(request.method, request.path) and fault.times != 0:
                if fault.times is not None:
                    fault.times -= 1
                if fault.hang:
                    await asyncio.sleep(3600)
                return failure(fault.status, fault.reason, headers=fault.headers)
        if self.proxied is not None and "/proxy/" in request.path:
            return await self.proxied(request)
        found = self._discovery(request.path)
        if found is not None:
            return web.json_response(found)
        route = self._route(request.path)
        if route is None:
            return failure(404, "NotFound", f"no path {request.path}")
        return await self._serve(request, route, body)

    def _discovery(self, path: str) -> Any:  # noqa: PLR0911 - a table of answers
        parts = path.strip("/").split("/")
        groups: dict[str, set[str]] = {}
        for group, version, _ in self.kinds:
            groups.setdefault(group, set()).add(version)
        if path == "/version":
            return {"major": "1", "minor": "37"}
        if parts == ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        if parts == ["apis"]:
            return {
                "kind": "APIGroupList",
                "groups": [group_of(g, v) for g, v in groups.items() if g],
            }
        if len(parts) == 2 and parts[0] == "apis" and parts[1] in groups:
            return group_of(parts[1], groups[parts[1]])
        if parts == ["api", "v1"]:
            return self._resources("", "v1")
        if len(parts) == 3 and parts[0] == "apis" and parts[2] in groups.get(parts[1], ()):
            return self._resources(parts[1], parts[2])
        return None

    def _resources(self, group: str, version: str) -> Any:
        listed = []
        for (one, its_version, plural), (kind, namespaced, subs) in self.kinds.items():
            if (one, its_version) != (group, version):
                continue
            verbs = ["get", "list", "watch", "patch", "create", "delete"]
            base = {"kind": kind, "namespaced": namespaced, "verbs": verbs}
            listed.append({**base, "name": plural, "singularName": kind.lower()})
            listed += [
                {**base, "name": f"{plural}/{sub}", "kind": "Scale" if sub == "scale" else kind}
                for sub in subs
            ]
        return {
            "kind": "APIResourceList",
            "groupVersion": f"{group}/{version}",
            "resources": listed,
        }

    def _route(self, path: str) -> Route | None:
        parts = path.strip("/").split("/")
        group, version, rest = (
            ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
        )
        namespace = None
        if not rest:
            return None
        if rest[0] == "namespaces" and len(rest) > 2:
            namespace, rest = rest[1], rest[2:]
        resource = (group, version, rest[0])
        if resource not in self.kinds:
            return None
        padded = [*rest[1:], None, None]
        return Route(resource, namespace, padded[0], padded[1])

    async def _serve(  # noqa: PLR0911 - a table of answers
        self, request: web.Request, route: Route, body: Any
    ) -> web.StreamResponse:
        if route.name is None:
            if request.method == "POST":
                return await self._create(route, body)
            if request.query.get("watch") == "true":
                response = web.StreamResponse(headers={"Content-Type": "application/json"})
                with contextlib.suppress(ConnectionResetError):  # the client went
                    await self._watch(request, route, response)
                return response
            return self._list(request, route)
        found = self.objects.get(route.key)
        if found is None:
            return failure(404, "NotFound", f"{route.resource[2]} {route.name!r} not found")
        if route.subresource and route.subresource not in self.kinds[route.resource][2]:
            return failure(404, "NotFound", "no such subresource")
        if route.subresource == "token":
            audience = body["spec"]["audiences"][0]
            self.minted += 1
            return web.json_response({"status": {"token": f"token-{self.minted} {audience}"}})
        if request.method == "PATCH":
            return await self._patch(route, found, body, request)
        if request.method == "DELETE":
            await self.delete(route.resource, route.namespace, route.name)
            return web.json_response({"kind": "Status", "status": "Success"})
        return web.json_response(scale_of(found) if route.subresource == "scale" else found)

    def _list(self, request: web.Request, route: Route) -> web.Response:
        found = self.all(route.resource, route.namespace)
        start, limit = int(request.query.get("continue", 0)), int(request.query.get("limit", 0))
        page = found[start : start + limit] if limit else found
        more = str(start + limit) if limit and start + limit < len(found) else ""
        meta = {"resourceVersion": str(self.version), "continue": more}
        kind = self.kinds[route.resource][0]
        return web.json_response({"kind": f"{kind}List", "metadata": meta, "items": page})

    async def _watch(
        self, request: web.Request, route: Route, response: web.StreamResponse
    ) -> None:
        seen = int(request.query.get("resourceVersion") or self.version)
        await response.prepare(request)
        if seen < self.oldest:
            gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
            await send(response, {"type": "ERROR", "object": gone})
            return
        clock = asyncio.get_running_loop().time
        told = clock()
        until = told + float(request.query.get("timeoutSeconds", 600))
        while clock() < until:
            if self.silent_watches:
                await asyncio.sleep(0.05)
                continue
            for version, one, event, body in list(self.log):
                if version <= seen:
                    continue
                if one.resource == route.resource and route.namespace in (None, one.namespace):
                    await send(response, {"type": event, "object": body})
                    told = clock()
                seen = version
            # Changes elsewhere put a bookmark off no more than those of a real server do.
            if not await self._wait_for_change(seen, told + self.bookmark_seconds - clock()):
                if not (self.log and self.log[-1][0] > seen):
                    seen = max(seen, self.version)
                kind, meta = self.kinds[route.resource][0], {"resourceVersion": str(seen)}
                bookmark = {"kind": kind, "apiVersion": route.resource[1], "metadata": meta}
                await send(response, {"type": "BOOKMARK", "object": bookmark})
                told = clock()

    async def _wait_for_change(self, seen: int, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds), self.changed:
                await self.changed.wait_for(lambda: self.log and self.log[-1][0] > seen)
        except TimeoutError:
            return False
        return True

    async def _create(self, route: Route, body: dict[str, Any]) -> web.Response:
        body = copy.deepcopy(body)
        body["metadata"].setdefault("namespace", route.namespace)
        named = Route(route.resource, route.namespace, body["metadata"]["name"], None)
        if named.key in self.objects:
            return failure(409, "AlreadyExists")
        return web.json_response(await self.put(route.resource, body), status=201)

    async def _patch(
        self, route: Route, found: dict[str, Any], body: Any, request: web.Request
    ) -> web.Response:
        wanted = (body.get("metadata") or {}).get("resourceVersion")
        if wanted is not None and wanted != found["metadata"]["resourceVersion"]:
            return failure(409, "Conflict", "the object has been modified")
        if (body.get("metadata") or {}).get("uid") not in {None, found["metadata"]["uid"]}:
            return failure(409, "Conflict", "Precondition failed: UID")
        if request.content_type != "application/merge-patch+json":
            return failure(415, "UnsupportedMediaType", request.content_type)
        plain = Route(route.resource, route.namespace, route.name, None)
        if route.subresource == "scale":
            changed = merged(found, {"spec": body["spec"]})
            changed["metadata"]["generation"] = found["metadata"].get("generation", 1) + 1
            saved = await self._save(plain, changed, "MODIFIED")
            return web.json_response(scale_of(saved))
        if route.subresource == "status":
            changed = self.store(plain, merged(found, {"status": body.get("status")}))
        else:
            changed = merged(found, {k: v for k, v in body.items() if k != "status"})
        return web.json_response(await self._save(plain, changed, "MODIFIED"))


def group_of(group: str, versions: set[str]) -> Any:
    listed = [{"groupVersion": f"{group}/{one}", "version": one} for one in sorted(versions)]
    return {"kind": "APIGroup", "name": group, "versions": listed, "preferredVersion": listed[0]}


def scale_of(body: dict[str, Any]) -> Any:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    labels = ((spec.get("selector") or {}).get("matchLabels")) or {}
    replicas = spec.get("replicas", 1)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            k: body["metadata"][k] for k in ("name", "namespace", "uid", "resourceVersion")
        },
        "spec": {"replicas": replicas} if replicas else {},
        "status": {
            "replicas": status.get("replicas", 0),
            "selector": ",".join(f"{key}={value}" for key, value in labels.items()),
        },
    }


def merged(old: Any, patch: Any) -> Any:
    """RFC 7386."""
    if not isinstance(patch, dict):
        return patch
    result = dict(old) if isinstance(old, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return copy.deepcopy(result)


def failure(
    status: int, reason: str, message: str = "", headers: dict[str, str] | None = None
) -> web.Response:
    body = {
        "kind": "Status",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": status,
    }
    return web.json_response(body, status=status, headers=headers)


async def send(response: web.StreamResponse, event: Any) -> None:
    await response.write(json.dumps(event).encode() + b"\n")


def now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
