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
from cacheaware_sim.policies.wva import AT_ONCE, Through
from cacheaware_sim.policies.wva_v1 import WvaV1Settings
from cacheaware_sim.policies.wva_v2 import WvaV2Settings

PATIENT = Behavior(
    up=Rules(30, (Rate("Pods", 2, 60),)),
    down=Rules(300, (Rate("Pods", 1, 60),)),
)
"""Half a minute of proof and two pods a minute, against overshooting on a queue of waves."""

STEADY = Behavior(up=Rules(0, (Rate("Pods", 4, 60),)), down=Rules(600, (Rate("Pods", 1, 60),)))
"""Up at once, though not by more than four a minute; down after ten minutes."""
SLOW_DOWN = Through(
    Behavior(up=AT_ONCE.behavior.up, down=Rules(300, (Rate("Pods", 1, 60),))), AT_ONCE.tolerance
)
"""WVA's result up at once, down after five minutes."""

TUNED: Mapping[str, Any] = {
    "static-peak": StaticSettings(bin_s=10.0, utilization=0.7),
    "static-mean": StaticSettings(bin_s=10.0, utilization=0.5),
    "hpa-gpu": HpaSettings(target=80, behavior=STEADY),
    "hpa-waiting": HpaSettings(target=1, behavior=STEADY),
    "keda-kv": KedaSettings((Trigger("usage", 0.2),), use_cached_metrics=False, behavior=STEADY),
    "keda-waiting": KedaSettings(
        (Trigger("waiting", 1),), use_cached_metrics=False, behavior=STEADY
    ),
    "keda-both": KedaSettings(
        (Trigger("usage", 0.5), Trigger("waiting", 2)), use_cached_metrics=False, behavior=STEADY
    ),
    "knative-kpa": KpaSettings(target=5.0, scale_down_delay_s=300.0),
    "aibrix-kpa": AibrixSettings(
        target=0.1, fleet_sum=True, unknown_is_zero=False, shrink_to_highest=True
    ),
    "aibrix-apa": AibrixSettings(
        target=0.1, down_tolerance=0.2, unknown_is_zero=False, shrink_to_highest=True
    ),
    "wva-v1": WvaV1Settings(loop_s=30.0, kv_threshold=0.6, through=SLOW_DOWN),
    "wva-v2": WvaV2Settings(loop_s=30.0, scale_up_threshold=0.4, scale_down_boundary=0.25),
    "dynamo": DynamoSettings(up_threshold=0.2, down_threshold=0.05),
    "token-velocity": VelocitySettings(utilization=0.2, shrink_window_s=600.0),
}
