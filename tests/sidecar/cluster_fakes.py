"""A cluster as far as tokens go: its signing keys, its tokens, its API server, a pod's secrets."""

import datetime as dt
import ipaddress
import json
import ssl
import threading
import time
import warnings
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import jwt
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

ISSUER = "https://kubernetes.default.svc.cluster.local"
ACCOUNT = "system:serviceaccount:cacheaware-system:cacheaware"
UID = "6f0c6a54-5a4f-4f0e-9b1e-0d7f3b1c2d3e"
AUDIENCE = f"cacheaware.dev/pod/{UID}"
CURVES = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
NOW = 1_800_000_000.0


def private_key(algorithm: str = "RS256", which: str = "cluster") -> Any:
    """A key for an algorithm; the same one for the same words, and for all algorithms of RSA."""
    return _private_key(algorithm if algorithm in CURVES else "RSA", which)


@cache
def _private_key(kind: str, which: str) -> Any:
    if kind in CURVES:
        return ec.generate_private_key(CURVES[kind])
    bits = 1024 if which == "short" else 2048
    return rsa.generate_private_key(public_exponent=65537, key_size=bits)


def jwk(algorithm: str = "RS256", kid: str | None = None, **changes: Any) -> dict[str, Any]:
    """The public half as the API server publishes it."""
    key = private_key(algorithm, changes.pop("which", "cluster")).public_key()
    kind = jwt.algorithms.ECAlgorithm if algorithm in CURVES else jwt.algorithms.RSAAlgorithm
    told = kind.to_jwk(key, as_dict=True)
    told = {**told, "kid": kid or algorithm, "alg": algorithm, "use": "sig", **changes}
    return {name: value for name, value in told.items() if value is not None}


def claims(now: float = NOW, **changes: Any) -> dict[str, Any]:
    """What the operator's token says; None takes a claim away."""
    usual = {
        "aud": [AUDIENCE],
        "exp": int(now) + 600,
        "iat": int(now),
        "nbf": int(now),
        "iss": ISSUER,
        "jti": "9f8e",
        "sub": ACCOUNT,
        "kubernetes.io": {"namespace": "cacheaware-system"},
    }
    return {name: value for name, value in {**usual, **changes}.items() if value is not None}


def mint(
    now: float = NOW,
    *,
    algorithm: str = "RS256",
    kid: str | None = None,
    which: str = "cluster",
    headers: dict[str, Any] | None = None,
    **changes: Any,
) -> str:
    """A signed token; without changes it is a good one."""
    headers = {"kid": kid or algorithm, **(headers or {})}
    payload = json.dumps(claims(now, **changes)).encode()
    with warnings.catch_warnings(action="ignore", category=jwt.InsecureKeyLengthWarning):
        return jwt.PyJWS().encode(payload, private_key(algorithm, which), algorithm, headers)


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@cache
def server_certificate(which: str = "server") -> tuple[bytes, bytes]:
    """The API server's own, good for 127.0.0.1, and its key: its own authority."""
    key = private_key("ES256", which)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kube-apiserver")])
    day = dt.timedelta(days=1)
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    kind = serialization.PrivateFormat.PKCS8
    pem = serialization.Encoding.PEM
    return certificate.public_bytes(pem), key.private_bytes(pem, kind, plain)


class FakeApi:
    """Publishes keys over TLS, and does what its attributes say."""

    def __init__(self, folder) -> None:
        self.keys: list[Any] = [jwk("RS256"), jwk("ES256")]
        self.body: bytes | None = None
        """Instead of the keys."""
        self.status = 200
        self.location: str | None = None
        self.hang = threading.Event()
        self.hang.set()
        self.seen = threading.Event()
        """A request has come."""
        self.asked: list[tuple[str, dict[str, str]]] = []
        api = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                api.answer(self)

            def log_message(self, *arguments: Any) -> None:
                """Says nothing."""

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """Says nothing when a peer has gone."""

        certificate, key = server_certificate()
        pem = folder / "server.pem"
        pem.write_bytes(key + certificate)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pem)
        self._server = Server(("127.0.0.1", 0), Handler)
        self._server.socket = context.wrap_socket(
            self._server.socket, server_side=True, do_handshake_on_connect=False
        )
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def environ(self) -> dict[str, str]:
        """What the kubelet tells every container."""
        port = str(self._server.server_address[1])
        return {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": port}

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.asked.append((request.path, headers))
        self.seen.set()
        self.hang.wait(30)
        body = json.dumps({"keys": self.keys}).encode() if self.body is None else self.body
        request.send_response(self.status)
        if self.location:
            request.send_header("location", self.location)
        request.send_header("content-type", "application/jwk-set+json")
        request.send_header("content-length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)

    def stop(self) -> None:
        self.hang.set()
        self._server.shutdown()
        self._server.server_close()


def own_secrets(folder, **changes: Any):
    """The folder that the kubelet mounts: the pod's own token and the cluster's authority."""
    folder.mkdir(exist_ok=True)
    own = {
        "aud": ["https://kubernetes.default.svc"],
        "sub": "system:serviceaccount:default:default",
        "jti": "own",
        "kubernetes.io": {"pod": {"name": "engine-0", "uid": UID}},
    }
    (folder / "token").write_text(mint(time.time(), **{**own, **changes}) + "\n")
    (folder / "ca.crt").write_bytes(server_certificate()[0])
    return folder
