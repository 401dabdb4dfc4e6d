"""What pip needs at this place to reach its index: given to image builds as secrets, never kept.

The file of CACHEAWARE_PIP_CONF (else pip's own) and pip's variables become one configuration; the
certificate authorities are those of CACHEAWARE_CA_BUNDLE (else the ones that OpenSSL is told of).
"""

import configparser
import os
from collections.abc import Mapping
from pathlib import Path

OPTIONS = ("index-url", "extra-index-url", "trusted-host", "timeout", "retries", "proxy")
"""What is taken over from `PIP_…` variables; paths of the machine mean nothing in an image."""
BUNDLE_VARIABLES = ("CACHEAWARE_CA_BUNDLE", "PIP_CERT", "SSL_CERT_FILE")
CONFIGURATION_VARIABLES = ("CACHEAWARE_PIP_CONF", "PIP_CONFIG_FILE")
CONFIGURATIONS = ("/etc/pip.conf", "~/.config/pip/pip.conf", "~/.pip/pip.conf")


def configuration(environment: Mapping[str, str] = os.environ) -> str | None:
    """A pip.conf for the build, or None where pip needs none."""
    parser = configparser.RawConfigParser()
    named = [environment[name] for name in CONFIGURATION_VARIABLES if environment.get(name)]
    parser.read(named[:1] or [os.path.expanduser(path) for path in CONFIGURATIONS])  # noqa: PTH111  the parser takes names
    for option in OPTIONS:
        value = environment.get(f"PIP_{option.upper().replace('-', '_')}")
        if value:
            parser.setdefault("global", {})
            parser["global"][option] = value
    for section in parser.sections():
        for option in ("cert", "find-links"):
            parser.remove_option(section, option)
    lines = [
        line
        for section in parser.sections()
        for line in (f"[{section}]", *(f"{k} = {v}" for k, v in parser[section].items()))
    ]
    return "\n".join(lines) + "\n" if lines else None


def ca_bundle(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file of certificate authorities for the build, where one is named and exists."""
    named = [Path(environment[name]) for name in BUNDLE_VARIABLES if environment.get(name)]
    return next((path for path in named if path.is_file()), None)
