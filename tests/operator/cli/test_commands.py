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
