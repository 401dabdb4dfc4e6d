"""kopf's part: `on.event` handlers that record what a watch tells, and nothing else.

No handler here makes kopf set a finalizer: no create, update or delete handlers, no timers, no
daemons, no indices.
"""

import logging
from typing import Any

import kopf

from cacheaware import names
from cacheaware.controller.registry import Registry, foreign_record, scaler_record
from cacheaware.kube import Kube

log = logging.getLogger(__name__)

HPA = ("autoscaling", "v2", "horizontalpodautoscalers")
SCALED_OBJECT = ("keda.sh", "v1alpha1", "scaledobjects")


def handlers(registry: Registry, kube: Kube, *, keda: bool, dynamic: bool) -> kopf.OperatorRegistry:
    """All handlers, bound to where they record.

    Args:
        registry: where they record.
        kube: gives kopf its credentials.
        keda: whether the cluster has ScaledObjects.
        dynamic: follow CRDs and namespaces that come and go (needs cluster-wide rights).
    """
    found = kopf.OperatorRegistry()

    @kopf.on.startup(registry=found, id="settings")
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        configure_kopf(settings, dynamic=dynamic)

    @kopf.on.login(registry=found, id="login")
    async def login(**_: Any) -> kopf.ConnectionInfo:
        return await connection(kube)

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=found, id="scalers")
    def scaler_seen(body: kopf.Body, event: kopf.RawEvent, **_: Any) -> None:
        record_scaler(registry, event["type"], body)

    @kopf.on.event(*HPA, registry=found, id="hpas")
    def hpa_seen(body: kopf.Body, event: kopf.RawEvent, **_: Any) -> None:
        record_foreign(registry, "HorizontalPodAutoscaler", event["type"], body)

    if keda:

        @kopf.on.event(*SCALED_OBJECT, registry=found, id="scaledobjects")
        def scaled_object_seen(body: kopf.Body, event: kopf.RawEvent, **_: Any) -> None:
            record_foreign(registry, "ScaledObject", event["type"], body)

    return found


def record_scaler(registry: Registry, event: str | None, body: Any) -> None:
    """A CacheAwareScaler came, changed or went; one that is being deleted is gone for us."""
    if event == "DELETED" or "deletionTimestamp" in body["metadata"]:
        registry.drop(body["metadata"]["uid"])
        return
    record = scaler_record(body)
    registry.deliver(record)
    log.debug("%s: %s %s", event or "LISTED", names.KIND, record)


def record_foreign(registry: Registry, kind: str, event: str | None, body: Any) -> None:
    """Another autoscaler came, changed or went."""
    record = None if event == "DELETED" else foreign_record(kind, body)
    if record is None:
        registry.drop(body["metadata"]["uid"])
    else:
        registry.deliver(record)


def configure_kopf(settings: kopf.OperatorSettings, *, dynamic: bool) -> None:
    """All settings of kopf in one place."""
    settings.posting.enabled = False
    settings.peering.standalone = True
    settings.scanning.disabled = not dynamic
    settings.persistence.finalizer = f"{names.GROUP}/never-set"
    settings.persistence.progress_storage = kopf.AnnotationsProgressStorage(prefix=names.GROUP)
    settings.persistence.diffbase_storage = kopf.AnnotationsDiffBaseStorage(prefix=names.GROUP)
    settings.watching.chunk_size = 250
    settings.watching.connect_timeout = 10.0
    settings.watching.client_timeout = 600.0
    settings.networking.connect_timeout = 10.0
    settings.networking.request_timeout = 60.0


async def connection(kube: Kube) -> kopf.ConnectionInfo:
    """Credentials for kopf, read anew each time it asks: after a 401 it asks again."""
    found = await kube.credentials()
    header = await found.get_api_key_with_prefix("BearerToken", alias="authorization")
    return kopf.ConnectionInfo(
        server=found.host,
        ca_path=found.ssl_ca_cert,
        insecure=not found.verify_ssl,
        token=header.split()[-1] if header else None,
        username=found.username or None,
        password=found.password or None,
        certificate_path=found.cert_file,
        private_key_path=found.key_file,
    )
