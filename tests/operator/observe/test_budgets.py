import pytest
from tests.operator.fake_api import Fault

from cacheaware.observe.budgets import Budget, Budgets, budget_of, guarded
from cacheaware.observe.selector import selector_of
from cacheaware.pods import PodRecord

BUDGETS = ("policy", "v1", "poddisruptionbudgets")


def record(name, ready=True, **labels):
    return PodRecord(
        namespace="demo", name=name, uid=name, labels=labels or {"app": "chat"}, ready=ready
    )


def body(allowed=2, healthy=1, *, selector=None, observed=1):
    return {
        "metadata": {"namespace": "demo", "name": "keep", "generation": 1},
        "spec": {"selector": {"matchLabels": {"app": "chat"}} if selector is None else selector},
        "status": {
            "observedGeneration": observed,
            "disruptionsAllowed": allowed,
            "desiredHealthy": healthy,
        },
    }


PODS = [record(name) for name in "abcd"]


@pytest.mark.parametrize(
    ("allowed", "healthy", "chosen", "free"),
    [
        pytest.param(3, 1, "ab", "ab", id="what is spare may go"),
        pytest.param(2, 1, "ab", "a", id="never the last disruption"),
        pytest.param(1, 3, "ab", "", id="one disruption is the last"),
        pytest.param(0, 4, "a", "", id="none is none"),
        pytest.param(3, 3, "ab", "", id="pods that are Ready count, not an old status"),
    ],
)
def test_a_budget_lets_pods_go_as_long_as_one_disruption_is_left(allowed, healthy, chosen, free):
    budget = budget_of(body(allowed, healthy))
    assert set("abcd") - set(guarded(budget, list(chosen), PODS)) == set(free)


def test_the_reason_names_the_budget_and_what_it_allows():
    told = guarded(budget_of(body(1)), ["a"], PODS)
    assert told["a"] == "PodDisruptionBudget keep allows 1 disruptions"


def test_a_status_that_is_not_current_allows_nothing():
    assert budget_of(body(5, observed=0)).allowed == 0


def test_a_budget_of_other_pods_guards_none_of_ours():
    other = budget_of(body(0, selector={"matchLabels": {"app": "other"}}))
    assert guarded(other, ["a"], PODS) == {}


@pytest.mark.parametrize(
    ("selector", "matches"),
    [
        pytest.param({}, True, id="an empty one selects all"),
        pytest.param({"matchExpressions": [{"key": "app", "operator": "Exists"}]}, True, id="has"),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "In", "values": ["chat"]}]},
            True,
            id="in",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["chat"]}]},
            False,
            id="not in",
        ),
        pytest.param(
            {"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]}, False, id="has not"
        ),
    ],
)
def test_selectors_are_those_of_kubernetes(selector, matches):
    assert selector_of(selector).matches({"app": "chat"}) is matches


async def test_budgets_are_read_once_for_a_while(api, kube):
    now = [0.0]
    budgets = Budgets(kube, clock=lambda: now[0])
    await api.put(BUDGETS, body(1))
    assert await budgets.guards("demo", ["a"], PODS)
    await api.delete(BUDGETS, "demo", "keep")
    assert await budgets.guards("demo", ["a"], PODS)
    now[0] = 11.0
    assert await budgets.guards("demo", ["a"], PODS) == {}


async def test_budgets_that_cannot_be_read_guard_every_pod(api, kube):
    api.faults.append(
        Fault(lambda _, path: "poddisruptionbudgets" in path, status=403, reason="Forbidden")
    )
    told = await Budgets(kube).guards("demo", ["a"], PODS)
    assert told.keys() == set("abcd")
    assert told["a"] == "the PodDisruptionBudgets can't be read: Forbidden"


def test_a_budget_is_named_in_words():
    assert "keep" in str(Budget("keep", selector_of({}), 1))
