"""`packs/pack_writer.py`: the same inputs give the same pack, and nothing is written that does not verify."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.pack_sources import make_key, write_sources
from traceforge.canon import digest_canonical_line
from traceforge.errors import CannotRead, CannotSign, CannotWrite, InvalidFile, NotJSON, PathInUse
from traceforge.modelio import model_io_hash
from traceforge.packs.pack_verifier import verify_pack
from traceforge.packs.pack_writer import create_pack


def _bytes(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_pack_is_made_and_verifies(tmp_path: Path) -> None:
    """Every file that a pack may hold; the run states the digests of the bundle and of the recording."""
    sources = write_sources(tmp_path / "in")
    report = create_pack(str(tmp_path / "pack"), sources)
    run = json.loads((tmp_path / "pack" / "run.json").read_bytes())
    bundle, recording = (json.loads(Path(sources[name]).read_bytes()) for name in ("bundle.json", "model_io.json"))

    assert sorted(sources) == sorted(os.listdir(tmp_path / "pack"))
    assert verify_pack(str(tmp_path / "pack")) == report._replace(files=tuple(sorted(sources)))
    assert () == report.violations
    assert {"bundle_id": "bundle-1", "sha256": digest_canonical_line(bundle)} == run["bundle"]
    assert model_io_hash(recording) == run["model_io_hash"]
    assert ["in", "pack"] == sorted(os.listdir(tmp_path))


def test_the_same_inputs_give_the_same_bytes(tmp_path: Path) -> None:
    """Whatever notation and order they are given in, and with the same key the same signature."""
    sources = write_sources(tmp_path / "in")
    key = str(make_key(tmp_path))
    create_pack(str(tmp_path / "one"), sources, key)
    for path in map(Path, sources.values()):
        if path.suffix == ".json" and path.name != "meta.json":
            path.write_text(json.dumps(dict(reversed(json.loads(path.read_bytes()).items()))))
    create_pack(str(tmp_path / "two"), dict(reversed(sources.items())), key)

    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")
    assert (tmp_path / "one.sig.json").read_bytes() == (tmp_path / "two.sig.json").read_bytes()


@pytest.mark.parametrize(
    ("change", "rule"),
    [
        (lambda run: run.update(model_io_hash="sha256:" + "0" * 64), "PK8"),
        (lambda run: run.update(bundle={"bundle_id": "other"}), "PK5"),
        (lambda run: run.update(bundle={"bundle_id": "bundle-1", "sha256": "sha256:" + "0" * 64}), "PK5"),
        (lambda run: run.pop("decision"), "PK3"),
        (lambda run: run.update(policy={"max_calls": 2}), "PK8"),
    ],
)
def test_an_invalid_pack_is_not_written(
    tmp_path: Path, change: Callable[[dict[str, Any]], object], rule: str
) -> None:
    """A digest that the run states must be true, and every rule must hold."""
    sources = write_sources(tmp_path / "in")
    run = json.loads(Path(sources["run.json"]).read_bytes())
    change(run)
    Path(sources["run.json"]).write_text(json.dumps(run))

    with pytest.raises(InvalidFile) as caught:
        create_pack(str(tmp_path / "pack"), sources)
    assert rule in {finding.rule for finding in caught.value.findings}
    assert ["in"] == os.listdir(tmp_path)


def test_correct_digests_may_be_stated(tmp_path: Path) -> None:
    """A run that was packed can be packed again."""
    sources = write_sources(tmp_path / "in")
    create_pack(str(tmp_path / "one"), sources)
    sources["run.json"] = str(tmp_path / "one" / "run.json")
    create_pack(str(tmp_path / "two"), sources)

    assert _bytes(tmp_path / "one") == _bytes(tmp_path / "two")


def test_an_invalid_recording_is_not_packed(tmp_path: Path) -> None:
    """Every violation of it is named."""
    sources = write_sources(tmp_path / "in")
    recording = json.loads(Path(sources["model_io.json"]).read_bytes())
    recording["interactions"][0]["response_content"] = "changed"
    Path(sources["model_io.json"]).write_text(json.dumps(recording))

    with pytest.raises(InvalidFile, match="MI7"):
        create_pack(str(tmp_path / "pack"), sources)


def test_an_existing_path_is_not_overwritten(tmp_path: Path) -> None:
    """Not even an empty folder; an unreadable or unwritable file is reported, and nothing is left."""
    sources = write_sources(tmp_path / "in")
    (tmp_path / "pack").mkdir()
    with pytest.raises(PathInUse):
        create_pack(str(tmp_path / "pack"), sources)
    with pytest.raises(CannotWrite):
        create_pack(str(tmp_path / "no" / "pack"), sources)
    with pytest.raises(CannotRead):
        create_pack(str(tmp_path / "two"), {**sources, "meta.json": str(tmp_path / "nowhere")})
    Path(sources["meta.json"]).write_text("{")
    with pytest.raises(NotJSON, match=r"meta\.json"):
        create_pack(str(tmp_path / "two"), sources)

    assert ["in", "pack"] == sorted(os.listdir(tmp_path))


@pytest.mark.parametrize("kind", ["rsa", "ecdsa", "missing", "text"])
def test_only_ed25519_signs(tmp_path: Path, kind: str) -> None:
    """Nothing is written where the key cannot sign."""
    sources = write_sources(tmp_path / "in")
    key = tmp_path / "key"
    if kind == "text":
        key.write_text("no key")
    elif kind != "missing":
        make_key(tmp_path, kind=kind)

    with pytest.raises(CannotSign, match=kind.upper() if kind in ("rsa", "ecdsa") else "SSH key is missing"):
        create_pack(str(tmp_path / "pack"), sources, str(key))
    assert not (tmp_path / "pack").exists()
    assert not (tmp_path / "pack.sig.json").exists()


def test_the_signature_of_an_earlier_pack_is_removed(tmp_path: Path) -> None:
    """It would make the new pack look like one that was changed."""
    (tmp_path / "pack.sig.json").write_text("old")
    create_pack(str(tmp_path / "pack"), write_sources(tmp_path / "in"))

    assert ["in", "pack"] == sorted(os.listdir(tmp_path))
