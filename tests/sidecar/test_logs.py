import json
import logging

from cacheaware_sidecar import logs
from cacheaware_sidecar.problems import FORGET_S, ProblemLog


def test_text_lines_have_time_level_and_message(own_logging, capsys):
    logs.set_up("text")
    logging.getLogger("cacheaware_sidecar.x").info("a %s", "b")

    time, level, message = capsys.readouterr().err.rstrip().split(" ", 2)
    assert (level, message) == ("INFO", "a b")
    assert time.endswith("Z")


def test_json_lines_carry_the_traceback_of_an_error(own_logging, capsys):
    logs.set_up("json")
    try:
        int("oops")
    except ValueError:
        logging.getLogger("cacheaware_sidecar.x").exception("broke")

    line = json.loads(capsys.readouterr().err)
    assert (line["level"], line["message"]) == ("error", "broke")
    assert "ValueError: invalid literal" in line["exception"]


def test_libraries_say_only_what_is_wrong(own_logging, capsys):
    logs.set_up("text")
    logging.getLogger("httpx").info("HTTP Request: GET /metrics")
    logging.getLogger("httpx").warning("odd")

    assert capsys.readouterr().err.count("\n") == 1


def test_a_problem_is_said_when_it_comes_up_and_not_again_while_it_flaps():
    log = ProblemLog()
    said = [
        log.update(problems, now) for now, problems in enumerate([["a"], ["a"], [], ["a", "b"]])
    ]

    assert said == [["a"], [], [], ["b"]]


def test_a_problem_that_was_gone_for_long_is_news_again():
    log = ProblemLog()
    log.update(["a"], 0.0)

    assert log.update(["a"], FORGET_S - 1) == []
    assert log.update(["a"], FORGET_S) == []
    assert log.update([], FORGET_S * 2 - 1) == []
    assert log.update(["a", "a"], FORGET_S * 3) == ["a"]
