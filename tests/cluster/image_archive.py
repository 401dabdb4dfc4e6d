"""An image of one static binary, written without an image builder, in Docker's archive format."""

import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path

ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


def single_binary(image: str, binary: Path, archive: Path) -> Path:
    """Writes an archive that holds an image whose entry point is the one file in it."""
    layer = _tar({"binary": (0o755, binary.read_bytes())})
    config = json.dumps(
        {
            "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {"Entrypoint": ["/binary"], "User": "65535:65535"},
            "rootfs": {"type": "layers", "diff_ids": [f"sha256:{_digest(layer)}"]},
        }
    ).encode()
    config_name = f"{_digest(config)}.json"
    manifest = [{"Config": config_name, "RepoTags": [image], "Layers": ["layer.tar"]}]
    files = {
        "layer.tar": (0o644, layer),
        config_name: (0o644, config),
        "manifest.json": (0o644, json.dumps(manifest).encode()),
    }
    archive.write_bytes(_tar(files))
    return archive


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _tar(files: dict[str, tuple[int, bytes]]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for name, (mode, content) in files.items():
            entry = tarfile.TarInfo(name)
            entry.mode, entry.size = mode, len(content)
            tar.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()
