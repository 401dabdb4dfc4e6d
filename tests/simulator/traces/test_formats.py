"""The content tells the format, the name doesn't."""

import pytest

from cacheaware_sim.traces.formats import detect


@pytest.mark.parametrize(
    ("content", "format_name"),
    [
        ("TIMESTAMP,ContextTokens,GeneratedTokens\n", "azure"),
        ("arrived_at,input_tokens,output_tokens,client\n", "servegen"),
        ('\n{"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": []}', "mooncake"),
        ('{"timestamp": 0, "prompt_tokens": 5, "completion_tokens": 1}', "request-log"),
        ("{broken", "request-log"),
        ("# words\n---\ntarget: x\nname: y\nprofile: poisson\n", "wva"),
        ("\ufeffload:\r\n  type: constant\r\n", "wva"),
    ],
)
def test_a_format_is_told_by_its_first_lines(written, content, format_name):
    assert detect(written(content)) == format_name
    assert detect(written(content, "named.after.nothing.gz")) == format_name


@pytest.mark.parametrize(
    ("name", "format_name"),
    [
        ("traces/azure2023/AzureLLMInferenceTrace_conv.csv", "azure"),
        ("traces/azure2023/AzureLLMInferenceTrace_code.csv", "azure"),
        ("traces/mooncake/conversation_trace.jsonl", "mooncake"),
        ("traces/servegen/r1_24h_x0.25.csv.gz", "servegen"),
        ("traces/wva_scenarios/static-baseline-gptoss120b.yaml", "wva"),
        ("latency/RTX4090_Llama-3.1-8B/requests.jsonl", "request-log"),
    ],
)
def test_the_published_files_are_told(shared, name, format_name):
    assert detect(shared / "data" / name) == format_name
