"""Commands as words: shells, scripts, launchers."""

import pytest

from cacheaware.workload.command import has_exec, has_several, is_program, script_of, words_of


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (["vllm", "serve", "m"], None),
        (["/bin/sh", "-c", "vllm serve m"], "vllm serve m"),
        (["bash", "-ec", "vllm serve m"], "vllm serve m"),
        (["bash", "-o", "pipefail", "-c", "x"], "x"),
        (["tini", "--", "sh", "-c", "x"], "x"),
        (["env", "A=1", "bash", "-c", "x"], "x"),
        (["tini", "--", "vllm", "serve"], None),
        (["/start.sh"], None),
        (["bash", "/start.sh"], None),
        (["bash", "-c"], None),
        ([], None),
        (["--model", "m"], None),
    ],
    ids=str,
)
def test_the_script_of_a_shell_is_found(command, script):
    assert script_of(command) == script


def test_a_script_is_taken_apart_and_the_rest_is_not():
    container = {"command": ["sh", "-c", "exec vllm serve 'a b' \\\n --port 9"], "args": ["a b"]}
    assert words_of(container) == ["sh", "-c", "exec", "vllm", "serve", "a b", "--port", "9", "a b"]


def test_a_script_that_shlex_can_not_read_is_split_at_blanks():
    assert words_of({"command": ["sh", "-c", "echo it's --port 9"]})[-2:] == ["--port", "9"]


@pytest.mark.parametrize(
    ("script", "passes"),
    [
        ("exec vllm serve", True),
        ("export A=1 && exec vllm serve", True),
        ("set -e\nexec vllm serve", True),
        ("vllm serve", False),
        ("vllm serve --executor exec_me", False),
        ("exec 2>&1; vllm serve", False),
        ("exec > log\nvllm serve", False),
        ("exec vllm serve 2>&1 | tee log", False),
        ("cd /x || exit 1; exec vllm serve", True),
        ("exec vllm serve || exit 1", True),
        ("echo 'now exec vllm'; vllm serve", False),
        ("vllm serve # not by exec vllm", False),
    ],
)
def test_exec_is_told_from_words_that_look_like_it(script, passes):
    assert has_exec(script) is passes


@pytest.mark.parametrize(
    ("script", "several"),
    [
        ("vllm serve m --port 8000", False),
        ("vllm serve m \\\n  --port 8000\n", False),
        ("# serve\nvllm serve m", False),
        ("vllm serve m > log 2>&1", False),
        ("vllm serve m &> log", False),
        ("vllm serve m;\n", False),
        ('vllm serve m --x \'a;b|c\' --y "http://h?a=1&b=\\"2"', False),
        ("vllm serve m  # one; two", False),
        ("a; vllm serve m", True),
        ("a\nvllm serve m", True),
        ("a && vllm serve m", True),
        ("vllm serve m | tee log", True),
        ("vllm serve m & wait", True),
    ],
)
def test_one_command_is_told_from_several(script, several):
    assert has_several(script) is several


@pytest.mark.parametrize(
    ("word", "is_it"),
    [
        ("vllm", True),
        ("/opt/bin/vllm", True),
        ("vllm.entrypoints.openai.api_server", True),
        ("/models/vllm-tuned", False),
        ("http://vllm:8000", False),
        ("vllm_router", False),
    ],
)
def test_a_program_is_told_from_a_word_that_holds_its_name(word, is_it):
    assert is_program(word, ("vllm",)) is is_it
