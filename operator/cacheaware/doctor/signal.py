"""Whether SIGTERM reaches the engine: a shell as the first process hands nothing on."""

from collections.abc import Iterator

from cacheaware.doctor.findings import Finding
from cacheaware.doctor.subject import Subject
from cacheaware.workload.command import argv_of, has_exec, has_several, has_trap, script_of


def signal_reach(subject: Subject) -> Iterator[Finding]:
    """A script that ends in the engine without `exec`."""
    script = script_of(argv_of(subject.engine.container))
    if script is None or has_exec(script) or has_trap(script):
        return
    fix = "put `exec` before the engine's command in the script, or run it without a shell"
    if has_several(script):
        yield subject.warning(
            "sigterm-not-passed-on",
            "a shell runs the engine as its child and does not pass SIGTERM on: the engine never"
            f" shuts down by itself and is killed after all {subject.grace} s of the grace period",
            fix,
        )
    else:
        yield subject.info(
            "shell-without-exec",
            "a shell starts the engine without `exec`: bash and dash replace themselves by a single"
            " command, other shells keep SIGTERM to themselves",
            fix,
        )
