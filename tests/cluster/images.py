"""The project's images: built from its Dockerfile when a source of theirs changed, and loaded.

The label of an image holds the fingerprint of its sources, so that a second build of the same
sources is one look at the image. The store of images is the machine's, so each checkout has tags of
its own beside the common ones, and one command at a time builds or loads.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tests.cluster.base_image import base_images
from tests.cluster.cache import cache_folder, fingerprint
from tests.cluster.choice import CHECKOUT, Cluster
from tests.cluster.engine import running_engine
from tests.cluster.errors import ClusterError
from tests.cluster.locks import locked
from tests.cluster.packages import FOR_IMAGES, ensure
from tests.cluster.pip_settings import ca_bundle, configuration
from tests.cluster.shell import run, say

LABEL = "dev.cacheaware.sources"
TAG = "dev"
COMMON = ("Dockerfile", ".dockerignore", "pyproject.toml", "constraints.txt")


@dataclass(frozen=True)
class Image:
    """One target of a Dockerfile.

    Attributes:
        target: its name there.
        roots: the folders whose code it runs.
        files: what else goes in; the first is the Dockerfile.
    """

    target: str
    roots: tuple[str, ...]
    files: tuple[str, ...] = COMMON

    @property
    def name(self) -> str:
        """As pods name it."""
        return f"docker.io/cacheaware/{self.target}:{TAG}"

    def own(self, checkout: Path) -> str:
        """As the store names the one of a checkout."""
        return f"{self.name}-{fingerprint([], str(checkout))}"

    def sources(self, checkout: Path) -> str:
        """The fingerprint of everything that goes in."""
        files = [checkout / name for name in self.files]
        for root in self.roots:
            files += [f for f in (checkout / root).rglob("*") if f.suffix in {".py", ".typed"}]
        places = [str(file.relative_to(checkout)) for file in sorted(files)]
        return fingerprint(files, *places)


IMAGES = (
    Image("operator", ("operator", "sidecar")),
    Image("sidecar", ("sidecar",)),
    Image("mock-engine", ("simulator", "operator", "sidecar")),
)
PROXY = Image("l7-proxy", (), ("tests/e2e/proxy/Dockerfile",))
"""A real L7 proxy, for tests only."""


class Builder(Protocol):
    """What builds images and writes them to archives."""

    def label(self, image: str) -> str | None:
        """The image's sources label; None where there is no such image."""

    def build(self, image: Image, checkout: Path, sources: str) -> None:
        """Builds a target of the Dockerfile."""

    def save(self, stored: str, name: str, archive: Path) -> None:
        """Writes a stored image under a name to a file in Docker's archive format."""

    def identity(self, image: str) -> str:
        """The image's id."""


@dataclass(frozen=True)
class EngineBuilder:
    """docker or podman.

    Attributes:
        program: its name.
    """

    program: str

    def label(self, image: str) -> str | None:
        """The image's sources label; None where there is no such image."""
        label = f'{{{{index .Config.Labels "{LABEL}"}}}}'
        return _inspected(self.program, "image", "inspect", "--format", label, image)

    def build(self, image: Image, checkout: Path, sources: str) -> None:
        """Builds a target of the Dockerfile."""
        with _secrets() as secrets:
            run(
                *(self.program, "build", "--target", image.target),
                *("--file", str(checkout / image.files[0])),
                *("--tag", image.name, "--tag", image.own(checkout)),
                *("--label", f"{LABEL}={sources}", *secrets, str(checkout)),
                env={"DOCKER_BUILDKIT": "1"},
                timeout_s=3600,
            )

    def save(self, stored: str, name: str, archive: Path) -> None:
        """Writes a stored image under a name to a file in Docker's archive format."""
        run(self.program, "tag", stored, name)
        run(self.program, "save", "--output", archive, name)

    def identity(self, image: str) -> str:
        """The image's id."""
        return run(self.program, "image", "inspect", "--format", "{{.Id}}", image).strip()


@dataclass(frozen=True)
class BuildahBuilder:
    """buildah, which needs no server; its base image comes from Debian's packages."""

    def label(self, image: str) -> str | None:
        """The image's sources label; None where there is no such image."""
        found = _inspected("buildah", "inspect", "--type", "image", image)
        if found is None:
            return None
        config = json.loads(found)["Docker"]["config"]
        labels: dict[str, str] = config.get("Labels") or {}
        return labels.get(LABEL)

    def build(self, image: Image, checkout: Path, sources: str) -> None:
        """Builds a target of the Dockerfile."""
        base = base_images()
        with _secrets() as secrets:
            run(
                *("buildah", "build", "--isolation", "chroot", "--network", "host"),
                *("--format", "docker", "--layers", "--pull-never"),
                *("--build-arg", f"PYTHON={base.run}", "--build-arg", f"PYTHON_BUILD={base.build}"),
                *("--file", str(checkout / image.files[0]), "--target", image.target),
                *("--tag", image.name, "--tag", image.own(checkout)),
                *("--label", f"{LABEL}={sources}", *secrets, str(checkout)),
                timeout_s=3600,
            )

    def save(self, stored: str, name: str, archive: Path) -> None:
        """Writes a stored image under a name to a file in Docker's archive format."""
        run("buildah", "push", "--quiet", stored, f"docker-archive:{archive}:{name}")

    def identity(self, image: str) -> str:
        """The image's id."""
        text = run("buildah", "inspect", "--type", "image", "--format", "{{.FromImageID}}", image)
        return text.strip()


def builder() -> Builder:
    """What builds images here: a container engine, else buildah."""
    engine, _ = running_engine()
    if engine:
        return EngineBuilder(engine.name)
    ensure(FOR_IMAGES)
    return BuildahBuilder()


def build_all(checkout: Path = CHECKOUT, images: tuple[Image, ...] = IMAGES) -> list[str]:
    """Builds the images whose sources changed; returns the names of all."""
    maker = builder()
    with locked(cache_folder() / "images.lock"):
        for image in images:
            sources = image.sources(checkout)
            if maker.label(image.own(checkout)) != sources:
                say(f"building {image.name}")
                maker.build(image, checkout, sources)
    return [image.name for image in images]


def load(cluster: Cluster, names: list[str], checkout: Path = CHECKOUT) -> list[str]:
    """Loads the images that this start of the cluster doesn't have yet; returns those loaded.

    Raises:
        ClusterError: an image isn't there, or no cluster is up.
    """
    maker = builder()
    own = {image.name: image.own(checkout) for image in (*IMAGES, PROXY)}
    stored = {name: own.get(name, name) for name in names}
    record = cache_folder() / f"loaded-{fingerprint([], str(checkout))}.json"
    with locked(cache_folder() / "images.lock"):
        start = cluster.identity()
        known = _known(record, start)
        wanted = {name: maker.identity(image) for name, image in stored.items()}
        fresh = {name: image for name, image in wanted.items() if known.get(name) != image}
        if fresh:
            with _archives(maker, {name: stored[name] for name in fresh}) as archives:
                cluster.load(archives)
            record.write_text(json.dumps({"cluster": start, "images": {**known, **fresh}}))
    return list(fresh)


def _known(record: Path, cluster: str) -> dict[str, str]:
    """Which image has which id in this start of the cluster."""
    content = json.loads(record.read_text()) if record.exists() else {}
    images: dict[str, str] = content["images"] if content.get("cluster") == cluster else {}
    return images


@contextmanager
def _archives(maker: Builder, stored: dict[str, str]) -> Iterator[dict[str, Path]]:
    folder = Path(tempfile.mkdtemp(prefix="cacheaware-images-", dir="/var/tmp"))
    try:
        archives = {name: folder / f"{number}.tar" for number, name in enumerate(stored)}
        for name, archive in archives.items():
            maker.save(stored[name], name, archive)
        yield archives
    finally:
        shutil.rmtree(folder)


@contextmanager
def _secrets() -> Iterator[list[str]]:
    """The build's arguments for pip's configuration and authorities, where there are any."""
    arguments = list[str]()
    with tempfile.TemporaryDirectory() as folder:
        if text := configuration():
            file = Path(folder) / "pip.conf"
            file.touch(mode=0o600)
            file.write_text(text)
            arguments += ["--secret", f"id=pip-conf,src={file}"]
        if bundle := ca_bundle():
            arguments += ["--secret", f"id=ca-bundle,src={bundle}"]
        yield arguments


def _inspected(*argv: str) -> str | None:
    try:
        return run(*argv).strip()
    except ClusterError:
        return None
