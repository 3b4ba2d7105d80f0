"""A certificate for localhost that nobody trusts until it is told to."""

from __future__ import annotations

import ssl
import subprocess
from pathlib import Path


def make_certificate(folder: Path) -> Path:
    """A file with a key and its certificate."""
    path = folder / "localhost.pem"
    certificate = folder / "localhost.crt"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days",
         "2", "-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-keyout", path,
         "-out", certificate],
        check=True, capture_output=True,
    )  # fmt: skip
    path.write_bytes(path.read_bytes() + certificate.read_bytes())
    return path


def server_context(certificate: Path) -> ssl.SSLContext:
    """The context of a server with this certificate."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate)
    return context
