"""Which release this is: fleets run old sidecars for months."""

from importlib import metadata


def version() -> str:
    """The installed release; "unknown" where it runs from a bare folder."""
    try:
        return metadata.version("cacheaware")
    except metadata.PackageNotFoundError:
        return "unknown"
