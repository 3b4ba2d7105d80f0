"""A small package with a dialect of its own, installed into a virtual environment."""

from __future__ import annotations

import base64
import hashlib
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

MODULE = """
from traceforge.wire.dialect_declaration import (
    AFTER_VERSION, DialectDeclaration, EndpointKind, EndpointPath, KeyHeader,
)
from traceforge.wire.stream_assembly import StreamAssembler, sse_frame
from traceforge.wire.unified import build_message, build_response

DIALECT = DialectDeclaration(
    name="acme",
    endpoints=(EndpointPath(r"/acme-generate/?", EndpointKind.CHAT, after=AFTER_VERSION),),
    hosts=("api.acme.example",),
    api_key=KeyHeader(("ACME_API_KEY",), "x-acme-key"),
)


def decode_request(body, model=""):
    return {**body, "messages": [{"role": "user", "content": body.get("question")}]}


def decode_response(body):
    message = build_message(content=body.get("reply"), tool_calls=[], parts=None)
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return build_response(
        answer_id=None, model=body.get("model"), created=None, choices=[choice], usage=None, extra={}
    )


def encode_response(unified):
    return {"model": unified.get("model"), "reply": unified["choices"][0]["message"]["content"]}


def encode_stream(unified):
    return [sse_frame(encode_response(unified))]


class new_assembler(StreamAssembler):
    def add_event(self, event, name=""):
        self.body.update(event)
        self.is_complete = True

    def finish(self):
        return self.body
"""


def make_environment(folder: Path) -> Path:
    """The Python of a new environment that sees the packages of this one, and has a folder of its own."""
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    (packages / "ours.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
    return folder / "bin" / "python"


def install_dialect(python: Path, folder: Path, module: str = MODULE, name: str = "acme_dialect") -> None:
    """Install a wheel whose entry point is this module, as a user does."""
    wheel = build_wheel(folder, module, name)
    pip = [sys.executable, "-m", "pip", "--python", str(python)]
    subprocess.run([*pip, "install", "-q", "--no-index", "--no-deps", wheel], check=True, capture_output=True)


def package_files(module: str, name: str) -> dict[str, str]:
    """The files of the package, as they are in a folder of packages."""
    info = f"{name}-1.0.dist-info"
    return {
        f"{name}.py": module,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[traceforge.dialects]\nacme = {name}\n",
    }


def build_wheel(folder: Path, module: str, name: str) -> Path:
    """A wheel of the package."""
    wheel = folder / f"{name}-1.0-py3-none-any.whl"
    files = package_files(module, name)
    lines = [f"{path},sha256={_record_hash(text)},{len(text)}" for path, text in files.items()]
    files[f"{name}-1.0.dist-info/RECORD"] = "\n".join([*lines, f"{name}-1.0.dist-info/RECORD,,"]) + "\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in files.items():
            archive.writestr(path, text)
    return wheel


def _record_hash(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
