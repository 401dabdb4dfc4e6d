"""Case 044-download-herd: a fleet that starts at once must not storm what it loads from."""

from msgspec.structs import replace
from tests.operator.decide.conftest import booting
from tests.operator.decide.small_cluster import POLICY, cluster, serving

from cacheaware.decide.policy import RatePolicy, Rules
from cacheaware_sidecar.phase import Phase


class TestWaves:
    POLICY = replace(
        POLICY,
        scale_up=Rules(stabilization_seconds=0, policies=(RatePolicy("Pods", 2, 60),)),
    )

    def grow(self, *, failing: bool):
        made = cluster(*(serving(name, kv=1.0, running=9) for name in "ab"), policy=self.POLICY)
        for name in "ab":
            made.load(name, waiting=25.0)
        waves = []
        for _ in range(4):
            before = made.spec
            told = made.round(after=60.0)
            waves.append(told.desired)
            for number in range(before, told.desired):
                name = f"n{number}"
                stuck = "engine: CrashLoopBackOff" if failing and number == before else None
                made.pods[name] = booting(name, stuck=stuck)
        return waves, told

    def test_healthy_waves_follow_each_other(self, case):
        given, expected = case("044", "input.state.json"), case("044", "expect.json")
        assert (given["specReplicas"], given["wanted"], given["maxIncreasePerMinute"]) == (2, 10, 2)
        assert self.grow(failing=False)[0] == expected["waves"] == [4, 6, 8, 10]

    def test_a_failing_wave_is_the_last(self, case):
        waves, told = self.grow(failing=True)
        assert waves[:2] == case("044", "expect.json")["with_crashloop"] == [4, 4]
        assert waves[2:] == [4, 4]
        assert told.reason == "StartsFailing"
        assert "starts" in told.limited_by
        assert "engine: CrashLoopBackOff" in told.message

    def test_one_failing_pod_among_many_healthy_ones_stops_nothing(self):
        made = cluster(*(serving(name, kv=1.0, running=9) for name in "ab"), policy=POLICY)
        for name in "ab":
            made.load(name, waiting=50.0)
        made.pods |= {f"n{i}": booting(f"n{i}") for i in range(3)}
        made.set("n0", stuck="engine: ImagePullBackOff")
        made.spec = 5
        made.rounds.memory = replace(made.rounds.memory, replicas=5)
        assert made.round().desired == 15

    def test_a_pod_that_finds_no_node_is_not_failing(self):
        made = cluster(serving("a", kv=1.0, running=9), policy=POLICY)
        made.load("a", waiting=50.0)
        made.pods["n"] = booting("n", stuck="Unschedulable")
        made.spec = 2
        made.rounds.memory = replace(made.rounds.memory, replicas=2)
        assert made.round().desired > 2

    def failing_once(self):
        made = cluster(serving("a", kv=1.0, running=9), policy=self.POLICY)
        made.load("a", waiting=50.0)
        made.pods["n"] = booting("n", stuck="engine: CrashLoopBackOff")
        made.spec = 2
        made.rounds.memory = replace(made.rounds.memory, replicas=2)
        assert made.round(after=60.0).desired == 2
        made.set("n", stuck=None)
        return made

    def test_between_two_crashes_a_pod_only_looks_well(self):
        made = self.failing_once()
        assert [made.round(after=60.0).desired for _ in range(9)] == [2] * 9
        assert made.round(after=60.0).desired == 4, "the kubelet forgets a crash after ten minutes"

    def test_a_pod_that_serves_in_the_end_lets_the_next_wave_go(self):
        made = self.failing_once()
        made.set("n", phase=Phase.SERVING, ready=True, load=made.pods["a"].load)
        assert made.round(after=60.0).desired == 4
