"""What is known of a workload at one moment: the input of a decision."""

from enum import StrEnum

from msgspec import Struct, field

from cacheaware.decide.circumstances import Circumstances
from cacheaware.decide.cold_start import Starting
from cacheaware.decide.learned import Learned
from cacheaware_sidecar.phase import Phase


class Unknown(StrEnum):
    """Why a pod's load is not known; also the reason shown in status and events."""

    NOT_YET_SEEN = "NotYetSeen"
    STALE = "MetricsStale"
    TIMED_OUT = "MetricsTimedOut"
    REFUSED = "MetricsRefused"
    UNAUTHORIZED = "MetricsUnauthorized"
    INVALID = "MetricsInvalid"
    UNSUPPORTED = "UnsupportedEngine"
    SCHEMA = "UnknownSchema"
    ERROR = "MetricsError"


class PodLoad(Struct, frozen=True, kw_only=True):
    """What a pod carries; each field None where the engine does not tell."""

    running: float | None = None
    waiting: float | None = None
    usage: float | None = None
    """Pinned KV 0..1, weighted by capacity over the pod's engines."""
    usage_max: float | None = None
    used_tokens: float | None = None
    capacity_tokens: float | None = None
    prompt_tokens_per_s: float | None = None
    generation_tokens_per_s: float | None = None
    tokens_per_request: float | None = None
    """Prompt and generation tokens of an average request."""
    prefix_hit_ratio: float | None = None
    ttft_p90_s: float | None = None
    prompt_tokens_per_request: float | None = None
    generation_tokens_per_request: float | None = None
    new_prompt_tokens: float | None = None
    """That came since the look before, by the engine's counter; 0: the same sample again."""
    preemptions_per_s: float | None = None
    adapters: tuple[str, ...] = ()
    """LoRA adapters that requests are using."""
    sleeping: bool | None = None
    """Whether its engines sleep: they serve nothing, and their KV cache is discarded."""


class PodView(Struct, frozen=True, kw_only=True):
    """One pod of the target."""

    name: str
    uid: str = ""
    node: str | None = None
    phase: Phase = Phase.SERVING
    ready: bool = True
    terminating: bool = False
    age_s: float = 3600.0
    """Since the pod was created."""
    starting: Starting | None = None
    """Where its start stands; None for one that has served, or where that is not known."""
    serving_age_s: float | None = None
    """Since it first served; None while it starts or where that is not known."""
    load: PodLoad | None = None
    """None: unknown, see `unknown`."""
    unknown: Unknown | None = None
    stale_load: PodLoad | None = None
    """The last load seen, kept for growth while the pod only times out."""
    stale_age_s: float = 0.0
    """How old `stale_load` is."""
    idle_rounds: int = 0
    """Rounds in a row in which it was seen with nothing running, waiting or pinned."""
    sidecar: bool = False
    """It was seen through its sidecar, so it can be cordoned."""
    final_drain: bool = False
    """Its template carries our preStop hook."""
    stuck: str | None = None
    """Why it can't start, such as `engine: ImagePullBackOff`, as the kubelet or scheduler say."""
    pending: bool = False
    """Not all of its containers have started: a ReplicaSet gives it up before any that runs."""
    disrupted: bool = False
    """Kubernetes takes it away: an eviction, a drain of its node, a preemption."""
    guarded_by: str | None = None
    """The PodDisruptionBudget that keeps it from being cordoned, in a few words."""
    cordoned_by: str | None = None
    """The uid of the scaler that holds its cordon."""
    cordoned_s: float = 0.0
    """How long it has been cordoned."""
    empty: bool = False
    """Its sidecar says so in this round, by the rule of the drain."""
    arrival_age_s: float | None = None
    """Since the last request that arrived after the cordon began; None: none has."""
    retained_s: float = 0.0
    """How long its gauge has shown more than its requests can hold: full, with no queue that lasts,
    no preemption and no slower answers; or in use with no request at all.
    """
    emptied_s: float | None = None
    """Since its KV cache was lost while the pod went on; None: it was not, as far as is known."""
    emptied_by: str = ""
    """How it was lost, in a few words."""
    no_cordon: str | None = None
    """Why it can't be cordoned, in a few words; None: it can, or that was not tried yet."""
    findings: tuple[str, ...] = ()
    """Errors that its sidecar finds in its KV cache's health: no decision reads them."""


class FleetView(Struct, frozen=True, kw_only=True):
    """A target workload and its pods. Keyed by uid: a re-created object starts fresh."""

    namespace: str
    name: str
    """The CacheAwareScaler's."""
    uid: str = ""
    target_kind: str = "Deployment"
    target_name: str = ""
    spec_replicas: int
    """What the target's /scale asks for."""
    pods: tuple[PodView, ...] = ()
    rollout: bool = False
    """A rolling update is under way: nothing is shrunk."""
    conflict: str | None = None
    """Who else owns the replicas, in words; None when nobody does."""
    learned: Learned = field(default_factory=Learned)
    """How long pods of this workload take to serve."""
    observation: str = "Sidecar"
    """Sidecar, Direct or Mixed: how this round's pods were seen."""
    problems: tuple[str, ...] = ()
    around: Circumstances = field(default_factory=Circumstances)
    """What bears on the replicas besides the pods."""

    @property
    def cordoned(self) -> int:
        """Pods that are out of the endpoints and could come back."""
        return sum(pod.phase is Phase.CORDONED and not pod.terminating for pod in self.pods)
