"""The profiles that were fitted to request logs of a real vLLM 0.19 (LLMServingSim's repository).

Whether the model's form is right shows `validate`, which fits to one half of a log and judges by
the other; here are the coefficients that profiles have, against the whole of it.
"""

import pytest

from cacheaware_sim.profiles import PROFILES
from cacheaware_sim.validate.figures import errors, measured
from cacheaware_sim.validate.replay import replay
from cacheaware_sim.validate.request_logs import read_request_log


@pytest.mark.parametrize(
    ("run", "profile", "preempts"),
    [
        pytest.param("RTXPRO6000_Llama-3.1-8B", "llama-3.1-8b-rtxpro6000", False, id="roomy"),
        pytest.param("RTX4090_Llama-3.1-8B", "llama-3.1-8b-rtx4090", True, id="short of cache"),
    ],
)
def test_the_profile_is_within_six_percent_of_the_real_engine(shared, run, profile, preempts):
    logged = read_request_log(shared / f"data/latency/{run}/requests.jsonl")

    served, preemptions = replay(PROFILES[profile].engine(), logged)

    real, ours = measured(logged), measured(served)
    found = {name: errors(real[name], ours[name]) for name in real}
    for name, of_time in found.items():
        print(f"  {name} mean/p50/p90/p99: " + " ".join(f"{error:+.1%}" for error in of_time))
    assert max(abs(error) for of_time in found.values() for error in of_time) < 0.06
    assert (preemptions > 0) == preempts
