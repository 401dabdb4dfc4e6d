from importlib.metadata import EntryPoint

import pytest
import typer

from cacheaware import cli
from cacheaware.cli.errors import BadInputError


def test_commands_of_a_package_that_is_absent_say_what_to_install():
    app = typer.Typer()
    app.command("other")(lambda: None)
    entry = EntryPoint("simulate", "no_such_package.cli:register", "cacheaware.commands")

    cli.register_extension(entry, app)

    with pytest.raises(BadInputError, match=r"no_such_package.*pip install 'cacheaware\[sim\]'"):
        app(["simulate", "run", "--trace", "x"], standalone_mode=False)


def test_an_unknown_command_is_one_line_and_exit_code_2(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["bogus"])

    assert ended.value.code == 2
    assert capsys.readouterr().err == "cacheaware: No such command 'bogus'.\n"


def test_output_that_can_not_be_written_is_one_line(capsys, monkeypatch):
    def full(*_args, **_options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(typer, "echo", full)
    with pytest.raises(SystemExit) as ended:
        cli.main(["crd"])

    assert ended.value.code == 2
    assert capsys.readouterr().err == "cacheaware: [Errno 28] No space left on device\n"


@pytest.mark.parametrize(
    ("words", "missing", "example"),
    [
        (["model", "plan", "c.json", "--gpu", "l40s"], "'--rate'", "--rate 8 --prompt 1500"),
        (["lora", "check", "./adapter"], "'--config'", "--config ./llama-3-8b"),
        (["model", "walk"], "'CONFIG'", "cacheaware model walk config.json"),
    ],
)
def test_what_is_missing_comes_with_an_example_that_has_it(capsys, words, missing, example):
    with pytest.raises(SystemExit) as ended:
        cli.main(words)

    told = capsys.readouterr().err
    assert ended.value.code == 2
    assert missing in told
    assert "Example: cacheaware " in told
    assert example in told
    assert told.count("\n") == 1


def test_what_is_missing_of_a_command_without_an_example_is_told_all_the_same(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["model", "audit"])

    assert ended.value.code == 2
    assert capsys.readouterr().err == "cacheaware: Missing argument 'CONFIG...'.\n"
