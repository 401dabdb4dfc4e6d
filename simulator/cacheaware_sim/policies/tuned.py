"""The peers' tuned settings: what `bench.tuning` finds on the train split, one for all traces."""

from collections.abc import Mapping
from typing import Any

from cacheaware_sim.policies.aibrix import AibrixSettings
from cacheaware_sim.policies.constant import StaticSettings
from cacheaware_sim.policies.dynamo import DynamoSettings
from cacheaware_sim.policies.hpa import HpaSettings
from cacheaware_sim.policies.hpa_behavior import Behavior, Rate, Rules
from cacheaware_sim.policies.keda import KedaSettings, Trigger
from cacheaware_sim.policies.knative import KpaSettings
from cacheaware_sim.policies.token_velocity import VelocitySettings
from cacheaware_sim.policies.wva import AT_ONCE
from cacheaware_sim.policies.wva_v1 import WvaV1Settings
from cacheaware_sim.policies.wva_v2 import WvaV2Settings

PATIENT = Behavior(
    up=Rules(30, (Rate("Pods", 2, 60),)),
    down=Rules(300, (Rate("Pods", 1, 60),)),
)
"""Half a minute of proof and two pods a minute, against overshooting on a queue of waves."""

TUNED: Mapping[str, Any] = {
    "static-peak": StaticSettings(bin_s=10.0, utilization=0.7),
    "static-mean": StaticSettings(bin_s=10.0, utilization=0.7),
    "hpa-gpu": HpaSettings(target=90),
    "hpa-waiting": HpaSettings(target=5, behavior=PATIENT),
    "keda-kv": KedaSettings((Trigger("usage", 0.5),), use_cached_metrics=False),
    "keda-waiting": KedaSettings(
        (Trigger("waiting", 5),), use_cached_metrics=False, behavior=PATIENT
    ),
    "keda-both": KedaSettings(
        (Trigger("usage", 0.5), Trigger("waiting", 5)), use_cached_metrics=False, behavior=PATIENT
    ),
    "knative-kpa": KpaSettings(target=20 * 0.7),
    "aibrix-kpa": AibrixSettings(fleet_sum=True, unknown_is_zero=False, shrink_to_highest=True),
    "aibrix-apa": AibrixSettings(
        up_tolerance=0.1, down_tolerance=0.2, unknown_is_zero=False, shrink_to_highest=True
    ),
    "wva-v1": WvaV1Settings(loop_s=30.0, through=AT_ONCE),
    "wva-v2": WvaV2Settings(loop_s=30.0, through=AT_ONCE),
    "dynamo": DynamoSettings(enable_throughput_scaling=True),
    "token-velocity": VelocitySettings(utilization=0.6, shrink_window_s=180.0),
}
