"""What scales the fleet on the cluster: defaults, as in the simulator."""

from typing import Any

from tests.e2e.trace.simulated import LIMITS

from cacheaware import names


def scaler(name: str) -> dict[str, Any]:
    """A CacheAwareScaler with nothing but its target, its mode and its bounds."""
    return {
        "apiVersion": names.API_VERSION,
        "kind": names.KIND,
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": name},
            "mode": "Scale",
            "minReplicas": LIMITS.min_replicas,
            "maxReplicas": LIMITS.max_replicas,
        },
    }
