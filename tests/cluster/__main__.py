"""`python3 -m tests.cluster COMMAND`: a real cluster, and images for it, from one command.

Needs nothing but Python's standard library, so that it runs before anything is installed.
"""

import argparse
import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from tests.cluster import images, programs
from tests.cluster.choice import CHECKOUT, choose
from tests.cluster.errors import ClusterError
from tests.cluster.shell import say

VALUES = CHECKOUT / "build" / "local-values.yaml"
"""What the chart needs to run the images that were built here."""
PASSED_ON = frozenset({"helm", "kubectl"})
"""They get all words after their name as they are: argparse would take options for ours."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command; returns the exit code: 0 well, 1 it can't be, 2 usage."""
    given = list(sys.argv[1:] if argv is None else argv)
    passed_on = given[:1] and given[0] in PASSED_ON
    arguments = _parser().parse_args(given[:1] if passed_on else given)
    arguments.words = given[1:]
    try:
        _COMMANDS[arguments.command](arguments)
    except ClusterError as error:
        say(str(error))
        return 1
    return 0


def _up(arguments: argparse.Namespace) -> None:
    """Brings the cluster up (harmless if it is); prints how to reach it."""
    path = choose().up()
    programs.kubectl()
    print(f"export KUBECONFIG={path}")
    print(f"export PATH={_path_of_programs()}:$PATH")


def _down(arguments: argparse.Namespace) -> None:
    """Removes the cluster and all it put on this machine (harmless if there is none)."""
    choose().down()


def _load(arguments: argparse.Namespace) -> None:
    """Loads images by name, those that the cluster has not yet; prints those loaded."""
    for name in images.load(choose(), arguments.image):
        print(name)


def _images(arguments: argparse.Namespace) -> None:
    """Builds the project's images where a source changed, loads them if a cluster is up."""
    names = images.build_all()
    print("\n".join(names))
    cluster = choose()
    if cluster.status()["up"]:
        images.load(cluster, names)
    repository, _, tag = images.IMAGES[0].name.rpartition(":")
    VALUES.parent.mkdir(exist_ok=True)
    VALUES.write_text(f"image:\n  repository: {repository}\n  tag: {tag}\n")


def _kubeconfig(arguments: argparse.Namespace) -> None:
    """Prints the path of the kubeconfig of the cluster that is up."""
    print(choose().kubeconfig())


def _status(arguments: argparse.Namespace) -> None:
    """Prints what is up, as JSON."""
    print(json.dumps(choose().status(), indent=2))


def _helm(arguments: argparse.Namespace) -> None:
    """Runs Helm (found or built) against the cluster that is up."""
    _become(programs.helm(), arguments.words)


def _kubectl(arguments: argparse.Namespace) -> None:
    """Runs kubectl (found or built) against the cluster that is up."""
    _become(programs.kubectl(), arguments.words)


def _become(program: Path, words: list[str]) -> None:
    os.environ["KUBECONFIG"] = str(choose().kubeconfig())
    os.execv(program, [program.name, *words])


def _path_of_programs() -> Path:
    """A folder with kubectl and helm under their own names, as far as they are built."""
    folder = CHECKOUT / "build" / "bin"
    folder.mkdir(parents=True, exist_ok=True)
    for name, program in (("kubectl", programs.kubectl()), ("helm", programs.helm())):
        link, real = folder / name, program.resolve()  # the folder itself may be on PATH
        link.unlink(missing_ok=True)
        link.symlink_to(real)
    return folder


_COMMANDS = {
    "up": _up,
    "down": _down,
    "load": _load,
    "images": _images,
    "kubeconfig": _kubeconfig,
    "status": _status,
    "helm": _helm,
    "kubectl": _kubectl,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m tests.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, command in _COMMANDS.items():
        text = (command.__doc__ or "").strip()
        sub = commands.add_parser(name, help=text, description=text)
        if name == "load":
            sub.add_argument("image", nargs="+", help="docker.io/…:tag, as pods name it")
    return parser


if __name__ == "__main__":
    sys.exit(main())
