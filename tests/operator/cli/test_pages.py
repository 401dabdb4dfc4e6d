"""`cacheaware model pages`."""

import io
import json
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.operator.cli.conftest import example, ran

from cacheaware import cli
from cacheaware.cli import config_files

LLAMA = {
    "model_type": "llama",
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "hidden_size": 4096,
    "torch_dtype": "bfloat16",
}
V4 = {"model_type": "deepseek_v4", "num_hidden_layers": 43, "num_attention_heads": 64}
DECI = {**LLAMA, "model_type": "deci", "num_hidden_layers": 2, "num_key_value_heads": None} | {
    "num_key_value_heads_per_layer": [4, 2]
}


def run(*args: object) -> int:
    with pytest.raises(SystemExit) as ended:
        cli.main(["model", "pages", *map(str, args)])
    return ended.value.code


@pytest.fixture
def write(tmp_path):
    def put(config: object, name: str = "config.json") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = config if isinstance(config, str) else json.dumps(config)
        path.write_text(text)
        return path

    return put


def test_json_is_a_list_with_stable_keys(write, capsys):
    path = write(LLAMA)
    assert run(path, "-o", "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer == {
        "file": str(path),
        "model_type": "llama",
        "architecture": "known",
        "scope": "per rank of the largest pipeline stage (TP 1, PP 1, DCP 1)",
        "layers": 32,
        "heads": 32,
        "kv_heads": 8,
        "head_dim": 128,
        "kv_dtype": "bfloat16",
        "block_size": 16,
        "bytes_per_token_all_layers": 131072,
        "bytes_per_token_growing": 131072,
        "bytes_per_token_reserved": 131072,
        "bytes_per_token_declared": None,
        "window_capped_bytes_per_sequence": 0,
        "state_bytes_per_sequence": 0,
        "cross_bytes_per_sequence": 0,
        "page_bytes": 65536,
        "largest_page_bytes": 65536,
        "bytes_per_block": 2097152,
        "groups": [{"kind": "full", "layers": 32, "block_size": 16, "window": None}],
        "layer_kinds": {"full": 32},
        "pod_bytes_per_token_all_layers": 131072,
        "pod_bytes_per_token_growing": 131072,
        "pod_bytes_per_token_reserved": 131072,
        "pod_window_capped_bytes_per_sequence": 0,
        "pod_state_bytes_per_sequence": 0,
        "pod_bytes_per_block": 2097152,
        "arithmetic": [
            "full: 32 layers x 8 KV heads x (128 + 128) x 2 B = 131,072 B/token",
            "page: 16 tokens x 4,096 B = 65,536 B",
            "block: 2,097,152 B behind one block id (one group of layers)",
        ],
        "warnings": [],
    }


def test_the_table_shows_the_arithmetic(write, capsys):
    assert run(write(LLAMA)) == 0
    out = capsys.readouterr().out
    assert "32 layers x 8 KV heads x (128 + 128) x 2 B = 131,072 B/token" in out
    assert "16 tokens x 4,096 B = 65,536 B" in out


def test_the_table_shows_what_the_file_lists_and_what_the_engine_allocates(write, capsys):
    assert run(write(DECI)) == 0
    out = capsys.readouterr().out
    assert "note: the file's list of KV heads gives 3,072 B/token" in out
    assert "sized with 4,096 B/token" in out


def test_options_reach_the_geometry(write, capsys):
    options = ("--tp", 2, "--pp", 2, "--kv-dtype", "fp8", "--block-size", 32, "-o", "json")
    assert run(write(LLAMA), *options) == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["page_bytes"] == 65536 // 2
    assert answer["bytes_per_token_growing"] == 131072 // 2 // 2 // 2
    assert answer["pod_bytes_per_token_growing"] == 131072 // 2
    assert "TP 2, PP 2, DCP 1" in answer["scope"]


def test_an_unknown_architecture_is_a_warning(write, capsys):
    assert run(write(V4), "-o", "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["architecture"] == "unknown"
    assert (answer["layers"], answer["heads"]) == (43, 64)
    assert {value for key, value in answer.items() if "bytes" in key} == {None}
    assert "no rate per token" in answer["warnings"][0]


def test_an_unknown_architecture_has_its_reason_in_the_table(write, capsys):
    assert run(write(V4)) == 0
    assert "note: layout of model_type 'deepseek_v4' not supported" in capsys.readouterr().out


def test_a_bad_file_is_one_line_and_the_good_ones_are_answered(write, capsys):
    bad = write({**LLAMA, "num_hidden_layers": 0}, "bad.json")
    good = write(LLAMA, "good.json")
    assert run(bad, good, "nowhere.json", "-o", "json") == 2
    captured = capsys.readouterr()
    assert [answer["file"] for answer in json.loads(captured.out)] == [str(good)]
    assert captured.err.splitlines() == [
        f"cacheaware: {bad}: num_hidden_layers is 0: allowed are whole numbers 1..10,000",
        "cacheaware: nowhere.json: can't be read: No such file or directory",
    ]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{", "is no JSON"),
        ("", "is no JSON"),
        ("[" * 200_000, "is no config.json: nested too deeply"),
        ("[]", "config is a list of 0: allowed is an object"),
        (
            '{"num_hidden_layers": ' + "9" * 5000 + "}",
            "is no JSON of a model: a number has 5,000 digits",
        ),
        ('{"num_hidden_layers": NaN}', "num_hidden_layers is nan"),
        ('{"num_hidden_layers": 1e30}', "num_hidden_layers is 1e+30"),
        ('{"num_hidden_layers": "a\\nb"}', r"num_hidden_layers is 'a\nb'"),
    ],
    ids=["broken", "empty", "deep", "a list", "5000 digits", "NaN", "1e30", "a line break"],
)
def test_rubbish_is_one_line(write, capsys, text, problem):
    assert run(write(text)) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert problem in captured.err


def test_an_empty_name_is_not_the_current_folder(capsys):
    assert run("") == 2
    assert capsys.readouterr().err == (
        "cacheaware: '': the name is empty: allowed are files, folders and -\n"
    )


def test_json_without_an_answer_is_an_empty_list(write, capsys):
    assert run(write("{"), "-o", "json") == 2
    assert json.loads(capsys.readouterr().out) == []


def test_bytes_that_are_no_text_are_one_line(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_bytes(b"\xff\xfe\x00")
    assert run(path) == 2
    assert "is no JSON" in capsys.readouterr().err


def test_a_byte_order_mark_is_read_over(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA), encoding="utf-8-sig")
    assert run(path) == 0


def test_a_file_without_end_is_not_read_whole(write, capsys, monkeypatch):
    monkeypatch.setattr(config_files, "LARGEST_FILE", 10)
    assert run(write(LLAMA)) == 2
    assert "is larger than 10 bytes" in capsys.readouterr().err


def test_a_checkpoint_folder_stands_for_its_config(write, capsys):
    path = write(LLAMA, "model/config.json")
    write("{", "model/tokenizer.json")
    assert run(path.parent, "-o", "json") == 0
    assert json.loads(capsys.readouterr().out)[0]["file"] == str(path)


def test_a_folder_of_configs_stands_for_all_of_them(write, capsys):
    paths = [write(LLAMA, f"models/{name}.json") for name in "ba"]
    assert run(paths[0].parent, "-o", "json") == 0
    answers = json.loads(capsys.readouterr().out)
    assert [answer["file"] for answer in answers] == sorted(map(str, paths))


def test_an_empty_folder_is_bad_input(tmp_path, capsys):
    assert run(tmp_path) == 2
    assert "the folder holds no *.json" in capsys.readouterr().err


def test_standard_input_is_read_once(monkeypatch, capsys):
    stdin = io.TextIOWrapper(io.BytesIO(json.dumps(LLAMA).encode()))
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run("-", "-", "-o", "json") == 2
    captured = capsys.readouterr()
    assert [answer["file"] for answer in json.loads(captured.out)] == ["-"]
    assert captured.err == "cacheaware: -: standard input can be read once: name it once\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (("--tp", 0), "tensor parallel is 0: allowed are whole numbers 1..4,096"),
        (("--pp", -1), "pipeline parallel is -1"),
        (("--tp", 4, "--dcp", 3), "allowed are divisors of tensor parallel 4"),
        (("--kv-dtype", "fp7"), "KV dtype is 'fp7': allowed are auto"),
        (("--block-size", 0), "block size is 0"),
        (("--tp", "many"), "Invalid value for '--tp'"),
    ],
)
def test_a_bad_option_is_one_line(write, capsys, options, problem):
    assert run(write(LLAMA), *options) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert len(captured.err.splitlines()) == 1
    assert problem in captured.err


def test_parallel_sizes_that_one_model_can_not_have_spoil_only_its_line(write, capsys):
    small = write({**LLAMA, "num_hidden_layers": 1}, "small.json")
    assert run(small, write(LLAMA, "large.json"), "--pp", 2, "-o", "json") == 2
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)) == 1
    assert "small.json: pipeline parallel is 2: allowed is 1..1 (layers)" in captured.err


def test_odd_names_stay_on_one_line(write, capsys):
    path = write(LLAMA | {"model_type": "a\nb\ud800"}, "odd\nname.json")
    assert run(path, "-o", "json") == 0
    (answer,) = json.loads(capsys.readouterr().out)
    assert answer["model_type"] == r"a\nb\ud800"
    assert answer["file"].endswith(r"odd\nname.json")


def test_kv_heads_that_differ_are_a_list_and_none_are_null(write, capsys):
    openelm = {
        "model_type": "openelm",
        "num_transformer_layers": 2,
        "head_dim": 64,
        "num_kv_heads": [3, 5],
        "torch_dtype": "bfloat16",
    }
    latent = {
        "model_type": "deepseek_v3",
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "kv_lora_rank": 512,
        "qk_rope_head_dim": 64,
    }
    assert run(write(openelm, "a.json"), write(latent, "b.json"), "-o", "json") == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["kv_heads"], first["page_bytes"]) == ([3, 5], [12288, 20480])
    assert (second["kv_heads"], second["page_bytes"]) == (None, 18432)


def test_all_published_configurations_are_answered(shared, capsys):
    folder = shared / "data/model-configs"
    assert run(folder, "--kv-dtype", "bf16", "-o", "json") == 0
    answers = json.loads(capsys.readouterr().out)
    assert len(answers) == 129
    unknown = [answer for answer in answers if answer["architecture"] == "unknown"]
    assert {answer["model_type"] for answer in unknown} == {"deepseek_v4", "deepseek_ref"}
    assert len(unknown) == 4


fields = st.dictionaries(
    st.sampled_from(sorted(LLAMA)) | st.text(max_size=6),
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=6)
    | st.lists(st.integers(-1, 40), max_size=3),
    max_size=6,
)


def test_the_name_of_a_model_on_a_hub_is_not_fetched(capsys):
    assert run("Qwen/Qwen3-32B") == 2
    assert (
        "Qwen/Qwen3-32B: there is no such folder, and nothing is fetched" in capsys.readouterr().err
    )
    assert run("gone/config.json") == 2
    assert "No such file" in capsys.readouterr().err


@settings(
    deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(config=fields, table=st.booleans())
def test_whatever_a_file_holds_the_command_answers_or_refuses(config, table, tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA | config))
    code = run(path, *(() if table else ("-o", "json")))
    captured = capsys.readouterr()
    assert code in {0, 2}
    assert len(captured.err.splitlines()) == (1 if code else 0)
    assert "Traceback" not in captured.err


def test_the_example_of_the_help_runs(write, capsys, monkeypatch):
    monkeypatch.chdir(write(LLAMA).parent)
    assert ran(capsys, *example("model", "pages"))[0] == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no JSON: an empty file"),
        (b" \n", "is no JSON: an empty file"),
        (b"GGUF\x03\x00\x00\x00", "is no JSON: a GGUF file"),
        (b"\x14\x00\x00\x00\x00\x00\x00\x00" + b'{"a":{"dtype":"F16"}}', "a safetensors file"),
        (b"PK\x03\x04....", "a zip archive"),
        (b"\x80\x02}q", "a pickle"),
        (b"\xff\xfe{\x00}\x00", "is no JSON: 'utf-8' codec can't decode"),
    ],
)
def test_a_file_of_another_kind_is_told_by_its_name(tmp_path, capsys, content, said):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    assert run(path) == 2
    told = capsys.readouterr()
    assert said in told.err
    assert len(told.err.splitlines()) == 1


def test_a_field_with_two_values_is_refused_and_one_told_twice_alike_is_not(write, capsys):
    text = json.dumps(LLAMA)[:-1]
    assert run(write(text + ', "num_hidden_layers": 16}')) == 2
    assert "num_hidden_layers is there twice, 32 and 16: allowed" in capsys.readouterr().err
    assert run(write(text + ', "num_hidden_layers": 32}')) == 0


def test_a_mark_of_byte_order_in_front_is_no_content(tmp_path, capsys):
    path = tmp_path / "config.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps(LLAMA).encode())
    assert run(path) == 0
    assert "131,072 B/token" in capsys.readouterr().out


def test_a_name_that_the_system_refuses_does_not_hold_back_the_good_files(write, capsys):
    assert run("x" * 300, write(LLAMA), "-o", "json") == 2
    told = capsys.readouterr()
    assert [one["layers"] for one in json.loads(told.out)] == [32]
    assert "can't be read: File name too long" in told.err
    assert len(told.err.splitlines()) == 1
