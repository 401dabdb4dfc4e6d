"""Keys, certificates and tokens, new for each cluster: made by openssl, worth nothing elsewhere."""

import base64
import secrets
from pathlib import Path

from tests.cluster.shell import run
from tests.cluster.source.plan import NODE, Plan

IDENTITIES = {
    "admin": ("admin", "system:masters"),
    "kubelet": (f"system:node:{NODE}", "system:nodes"),
    "controllers": ("system:kube-controller-manager", "system:masters"),
    "scheduler": ("system:kube-scheduler", ""),
    "proxy": ("system:kube-proxy", "system:node-proxier"),
    "dns": ("cacheaware:dns", "system:masters"),
}
"""Who calls the API server: the kubeconfig's name, then the user and the group."""

_EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


def create(plan: Plan) -> None:
    """Writes the authority, the server's certificate, the token keys and all kubeconfigs."""
    pki = plan.state / "pki"
    pki.mkdir(mode=0o700)
    run("openssl", "genrsa", "-out", pki / "sa.key", "2048")
    run("openssl", "rsa", "-in", pki / "sa.key", "-pubout", "-out", pki / "sa.pub")
    run(
        *("openssl", "req", "-x509", *_EC, "-keyout", pki / "ca.key", "-out", pki / "ca.crt"),
        *("-days", "365", "-subj", "/CN=cacheaware-test"),
    )
    run(
        *("openssl", "req", "-x509", *_EC, "-keyout", pki / "api.key", "-out", pki / "api.crt"),
        *("-CA", pki / "ca.crt", "-CAkey", pki / "ca.key", "-days", "365"),
        *("-subj", "/CN=kube-apiserver", "-addext", "basicConstraints=CA:FALSE"),
        *("-addext", f"subjectAltName={alternative_names(plan)}"),
    )
    tokens = {name: secrets.token_hex(16) for name in IDENTITIES}
    _private(plan.state / "tokens.csv", token_file(tokens))
    authority = (pki / "ca.crt").read_bytes()
    for name, token in tokens.items():
        text = kubeconfig(plan.api_url, authority, token)
        _private(plan.state / f"{name}.kubeconfig", text)


def alternative_names(plan: Plan) -> str:
    """Every name and address by which the API server is called."""
    service = ("kubernetes", "kubernetes.default", "kubernetes.default.svc")
    names = [f"DNS:{name}" for name in (*service, f"{service[-1]}.cluster.local", "localhost")]
    addresses = ("127.0.0.1", plan.api_service, plan.node_address, plan.uplink_address)
    return ",".join([*names, *(f"IP:{address}" for address in addresses)])


def token_file(tokens: dict[str, str]) -> str:
    """The API server's static tokens: token, user, uid, groups."""
    rows = [(tokens[name], *IDENTITIES[name]) for name in tokens]
    return "".join(f'{token},{user},{user},"{groups}"\n' for token, user, groups in rows)


def kubeconfig(server: str, authority: bytes, token: str) -> str:
    """A kubeconfig that needs no other file."""
    return f"""\
apiVersion: v1
kind: Config
clusters:
  - name: cacheaware
    cluster:
      server: {server}
      certificate-authority-data: {base64.b64encode(authority).decode()}
users:
  - name: user
    user: {{token: "{token}"}}
contexts:
  - name: cacheaware
    context: {{cluster: cacheaware, user: user}}
current-context: cacheaware
"""


def _private(path: Path, text: str) -> None:
    path.touch(mode=0o600)
    path.write_text(text)
