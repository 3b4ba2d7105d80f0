"""`import` of files that an attacker wrote: each is refused with its place, quickly, and the rest is imported."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import struct
import subprocess
import tarfile
import tracemalloc
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest
import yaml
import zstandard
from hypothesis import example, given
from hypothesis import strategies as st

from support.command import COMMAND, PLAIN_PYTEST
from support.exchanges import chat_answer, chat_request, plain_trace
from support.proposals import REPEATABLE, USAGE
from traceforge.canon import DEPTH_MAX
from traceforge.errors import CannotRead, InvalidFile
from traceforge.packs.pack_archive import BLOCK, END, member_header, read_archive
from traceforge.packs.pack_contents import read_folder
from traceforge.snapshots.record.cassette_format import read_cassette
from traceforge.snapshots.record.cassette_yaml import EXPANDED_BYTES_MAX, InvalidYaml, load_yaml
from traceforge.traces.trace_archive import TraceArchive

MEMORY_MAX = 1 << 30  # of address space; the smallest bomb took 5.5 GB
SECONDS_MAX = 110


def nest_aliases(first: str, step: str, rounds: int = 30) -> bytes:
    """A chain of anchors in which each repeats the one before several times."""
    lines = [f"a0: &a0 {first}", *(step.format(new=n, old=n - 1) for n in range(1, rounds))]
    return "\n".join([*lines, "interactions: []", ""]).encode()


BOMBS: dict[str, tuple[bytes, str]] = {
    "merged mappings": (
        nest_aliases("{x: 1}", "a{new}: &a{new} {{<<: [*a{old}, *a{old}, *a{old}, *a{old}]}}"),
        "a merge key, which no cassette needs at line 2",
    ),
    "repeated lists": (
        nest_aliases("[x, x, x, x]", "a{new}: &a{new} [*a{old}, *a{old}, *a{old}, *a{old}]"),
        f"it expands to more than {EXPANDED_BYTES_MAX} bytes at line",
    ),
    "a long text repeated": (
        nest_aliases("x" * 2000, "a{new}: &a{new} [*a{old}, *a{old}, *a{old}, *a{old}]"),
        f"it expands to more than {EXPANDED_BYTES_MAX} bytes at line",
    ),
    "deep lists": (b"[" * 200_000, f"nesting deeper than {DEPTH_MAX} at line 1"),
    "deep mappings": (b"{a: " * 200_000, f"nesting deeper than {DEPTH_MAX} at line 1"),
    "deep items": (b"- " * 200_000, f"nesting deeper than {DEPTH_MAX} at line 1"),
    "deep keys": (b"? " * 200_000, f"nesting deeper than {DEPTH_MAX} at line 1"),
    "a list inside itself": (b"interactions: &a [*a]\n", "an alias inside what it repeats at line 1"),
    "a key that is its own mapping": (b"interactions: &a {*a : 1}\n", "an alias inside what it repeats at line 1"),
    "many tag directives": (
        b"".join(b"%%TAG !t%d! x\n" % number for number in range(50_000)) + b"---\ninteractions: []\n",
        "a directive other than %YAML at line 1",
    ),
    "a number in base 60": (b"interactions: " + b"1:" * 500_000 + b"1\n", "a number of more than 1000 characters"),
    "a long number": (b"interactions: " + b"9" * 500_000 + b"\n", "a number of more than 1000 characters"),
    "a set": (b"interactions: !!set {a, b}\n", "a tag that no cassette needs at line 1"),
    "an ordered mapping": (b"interactions: !!omap [a: 1]\n", "a tag that no cassette needs at line 1"),
    "a call of Python": (
        b'!!python/object/apply:os.system ["touch ran"]\n',
        "a tag that no cassette needs at line 1",
    ),
    "a name of Python": (b"interactions: !!python/name:os.system ''\n", "a tag that no cassette needs at line 1"),
    "a wrong date": (b"interactions: 2021-99-99\n", "not a value of the tag timestamp at line 1"),
    "a second document": (b"--- {}\n--- {}\n", "a second document at line 2"),
    "UTF-16": ("interactions: []\n".encode("utf-16"), "not UTF-8"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_hostile_yaml_is_refused_with_its_place(name: str) -> None:
    """Before anything of it is built."""
    data, problem = BOMBS[name]

    with pytest.raises(InvalidFile) as refused:
        read_cassette(data, "a.yaml")

    (finding,) = refused.value.findings
    assert f"not YAML that a cassette holds: {problem}" in finding.message
    assert finding.hint


def test_many_small_nodes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of empty lists takes Python twenty times its size."""
    monkeypatch.setattr("traceforge.snapshots.record.cassette_yaml.CassetteBuilder.expanded_bytes_max", 1 << 20)

    with pytest.raises(InvalidYaml, match="expands to more than 1048576 bytes"):
        load_yaml(b"[" + b"[]," * 100_000 + b"]")


def test_aliases_that_vcrpy_writes_are_read() -> None:
    """PyYAML writes an alias wherever one object occurs twice."""
    headers = {"content-type": ["application/json"]}
    value = {"version": 1, "interactions": [headers, headers, {"body": b"\x80"}, None, True, 1.5, "<<", "1:30"]}

    assert value == load_yaml(yaml.dump(value).encode())


def call(uri: str = "https://api.openai.com/v1/chat/completions", **response: Any) -> dict[str, Any]:
    """One interaction of a cassette."""
    return {
        "request": {
            "method": "POST", "uri": uri, "headers": {"content-type": ["application/json"]},
            "body": json.dumps(chat_request("Hi", **REPEATABLE)),
        },
        "response": {
            "status": {"code": 200}, "headers": {"content-type": ["application/json"]},
            "body": {"string": json.dumps(chat_answer("yes", usage=USAGE))},
        } | response,
    }  # fmt: skip


CALLS: dict[str, dict[str, Any]] = {
    "no address": call("http://[::1/v1/chat/completions"),
    "a port that is none": call("http://a:99999999/v1/chat/completions"),
    "line breaks in an address": call("https://a\r\nX: y/v1/chat/completions"),
    "the first day": call(headers={"date": ["Mon, 01 Jan 0001 00:00:00 +2359"]}),
    "the last day": call(headers={"date": ["Fri, 31 Dec 9999 23:59:59 -2359"]}),
    "a year beyond every calendar": call(headers={"date": ["Mon, 01 Jan 99999999999999 00:00:00 GMT"]}),
    "a day beyond every calendar": call(headers={"date": [f"Mon, {'9' * 30} Jan 2020 00:00:00 GMT"]}),
    "a time zone beyond every calendar": call(headers={"date": [f"Mon, 01 Jan 2020 00:00:00 +{'9' * 30}"]}),
    "a date without numbers": call(headers={"date": [{"a": "b"}]}),
    "half a character": call(headers={"x-a": ["\ud800"]}),
    "half a character in the body": call(body={"string": "\ud800"}),
    "a compressed bomb": call(
        headers={"content-encoding": ["gzip"]}, body={"base64_string": "H4sIAAAAAAAAA" + "A" * 99}
    ),
    "a status of 1e999": call(status={"code": 1e308}),
}


def write_project(folder: Path) -> Path:
    """A project with one good cassette; the folder for others."""
    cassettes = folder / "tests" / "cassettes"
    cassettes.mkdir(parents=True)
    (folder / "traceforge.config.json").write_text("{}")
    good = json.dumps({"version": 1, "interactions": [call()]}).replace("Hi", "A good question")
    (cassettes / "zz-good.json").write_text(good)
    return cassettes


def import_all(folder: Path) -> subprocess.CompletedProcess[str]:
    """The real command, with little memory."""

    def limit_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_MAX, MEMORY_MAX))

    environ = {**PLAIN_PYTEST, "PATH": os.environ["PATH"], "HOME": str(folder)}
    command = [str(COMMAND), "import", "vcr", "tests/cassettes", "--json"]
    return subprocess.run(
        command, cwd=folder, env=environ, capture_output=True, text=True,
        timeout=SECONDS_MAX, check=False, preexec_fn=limit_memory,
    )  # fmt: skip


def test_the_rest_of_an_import_goes_on_past_hostile_files(tmp_path: Path) -> None:
    """Bombs, links, pipes, folders with the names of cassettes, hostile calls: the good call is imported."""
    cassettes = write_project(tmp_path)
    for number, (data, _) in enumerate(BOMBS.values()):
        (cassettes / f"bomb{number}.yaml").write_bytes(data)
    for number, interaction in enumerate(CALLS.values()):
        (cassettes / f"call{number}.json").write_text(json.dumps({"interactions": [interaction]}))
    (cassettes / "link.json").symlink_to("/etc/passwd")
    (cassettes / "loop.json").symlink_to("loop.json")
    (cassettes / "folder.json").mkdir()
    os.mkfifo(cassettes / "pipe.json")
    (cassettes / "deep.json").write_text('{"interactions": ' + "[" * 100_000)
    (cassettes / "bomb.yaml.gz").write_bytes(gzip.compress(b"- 0\n" * (17 << 20)))
    (cassettes / "cut.json.gz").write_bytes(gzip.compress(os.urandom(99))[:-20])
    (cassettes / "plain.yml.gz").write_text("interactions: []\n")
    (cassettes / "twice.yaml.gz").write_bytes(gzip.compress(gzip.compress(b"interactions: []\n")))
    (cassettes / "uneven.json").write_text('{"requests": [{}], "responses": []}')

    ran = import_all(tmp_path)

    assert 3 == ran.returncode, ran
    assert "TF999" not in ran.stderr
    findings = {(Path(finding["file"]).name, finding["rule"]) for finding in json.loads(ran.stdout)["findings"]}
    assert {(f"bomb{number}.yaml", "PARSE") for number in range(len(BOMBS))} < findings
    assert {(name, "PARSE") for name in ("bomb.yaml.gz", "cut.json.gz", "plain.yml.gz", "twice.yaml.gz")} < findings
    assert {"link.json", "loop.json", "pipe.json", "deep.json", "uneven.json"} < {name for name, _ in findings}
    pending = "".join(path.read_text() for path in (tmp_path / ".ai-tests" / "pending").iterdir())
    assert "A good question" in pending
    assert "root:" not in pending
    assert not (tmp_path / "ran").exists()


JSON_CASSETTES = {
    "a member twice": (
        json.dumps({"interactions": [call()]}).replace('"method": "POST"', '"method": "GET", "method": "POST"'),
        "an object has two members of one name",
    ),
    "the interactions twice": ('{"interactions": [], "interactions": []}', "an object has two members of one name"),
    "deep lists": ('{"interactions": ' + "[" * 100_000, f"nesting deeper than {DEPTH_MAX}"),
    "a long number": ('{"interactions": ' + "9" * 500_000 + "}", "a number too large for a double"),
    "NaN": ('{"interactions": [NaN]}', "NaN is not JSON"),
    "no objects": ('{"interactions": [' + "1," * 100_000 + "1]}", "must be an object"),
}


@pytest.mark.parametrize("name", JSON_CASSETTES)
def test_a_hostile_json_cassette_is_refused_with_its_place(name: str) -> None:
    text, problem = JSON_CASSETTES[name]

    with pytest.raises(InvalidFile) as refused:
        read_cassette(text.encode(), "a.json")

    (finding,) = refused.value.findings
    assert problem in finding.message


@pytest.mark.parametrize("method", ["", " ", "POST\r\nX: y", "POST /v1/models HTTP/1.1", "\x1b]52;c;AA\x07", "PÖST"])
def test_what_is_no_method_is_refused_with_its_place(method: str) -> None:
    """A pending change without one could not be read again, so that nothing else could be approved."""
    interaction = call()
    interaction["request"]["method"] = method

    with pytest.raises(InvalidFile) as refused:
        read_cassette(json.dumps({"interactions": [interaction]}).encode(), "a.json")

    assert "$.interactions[0].request.method" == refused.value.findings[0].path


@pytest.mark.parametrize("end", [b"", b"\xff" * 32], ids=["cut", "damaged"])
@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_bodies_that_are_damaged_at_the_end_are_not_decoded_for_each_alias(
    compress: Callable[[bytes], bytes], end: bytes
) -> None:
    """They stay small, so that their number alone decided how long an import took: ten minutes and more."""
    interaction = call()
    encoding = "gzip" if compress is gzip.compress else "zstd"
    body = compress(bytes(10 << 20))[:-5] + end
    interaction["response"] |= {"headers": {"Content-Encoding": [encoding]}, "body": body}
    text = yaml.safe_dump({"interactions": [interaction]}).replace("- request:", "- &a\n  request:", 1)

    assert 2 == len(read_cassette((text + "- *a\n").encode(), "a.yaml"))
    with pytest.raises(InvalidFile, match=f"its bodies expand to more than {EXPANDED_BYTES_MAX} bytes"):
        read_cassette((text + "- *a\n" * 100).encode(), "a.yaml")


@pytest.mark.parametrize("encoding", ["gzip", "zstd", "gzip, zstd"])
@pytest.mark.parametrize("side", ["request", "response"])
def test_bodies_that_expand_beyond_the_limit_are_refused(side: str, encoding: str) -> None:
    """Aliases repeat a compressed body in five bytes; each would become a trace of megabytes."""
    bomb = bytes(10 << 20)
    for name in encoding.split(", "):
        bomb = gzip.compress(bomb) if name == "gzip" else zstandard.compress(bomb)
    interaction = call()
    interaction[side] |= {"headers": {"Content-Encoding": [encoding]}, "body": bomb}
    data = yaml.safe_dump({"interactions": [interaction]})
    text = data.replace("- request:", "- &a\n  request:", 1)

    assert [bomb] == [getattr(item, f"{side}_body") for item in read_cassette(text.encode(), "a.yaml")]
    with pytest.raises(InvalidFile, match=f"its bodies expand to more than {EXPANDED_BYTES_MAX} bytes"):
        read_cassette((text + "- *a\n" * 12).encode(), "a.yaml")


def make_pack(tar: bytes) -> bytes:
    return zstandard.ZstdCompressor(write_checksum=True).compress(tar)


def make_member(name: str, data: bytes = b"x") -> bytes:
    return member_header(name, len(data)) + data + bytes(-len(data) % BLOCK)


def make_special_member(kind: bytes) -> bytes:
    """A tar whose only member is a link, a device or another thing that is no file."""
    stream = io.BytesIO()
    member = tarfile.TarInfo("pack/run.json")
    member.type, member.linkname = kind, "/etc/passwd"
    with tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        archive.addfile(member)
    return stream.getvalue()


PACKS = {
    "a name that leads outside": make_member("pack/../../etc/x") + END,
    "an absolute name": make_member("/etc/passwd") + END,
    "a name with a backslash": make_member("pack\\..\\x") + END,
    "a name with control characters": make_member("pack/a\x1b[31m\n::set-output") + END,
    "a name that runs backwards": make_member("pack/\u202ex") + END,
    "a file of Git": make_member("pack/.git/config") + END,
    "a member twice": make_member("pack/a") * 2 + END,
    "a symbolic link": make_special_member(tarfile.SYMTYPE),
    "a hard link": make_special_member(tarfile.LNKTYPE),
    "a device": make_special_member(tarfile.CHRTYPE),
    "a pipe": make_special_member(tarfile.FIFOTYPE),
    "a folder": make_special_member(tarfile.DIRTYPE),
    "a long name": make_special_member(tarfile.GNUTYPE_LONGNAME),
    "an extended header": make_special_member(tarfile.XHDTYPE),
}


@pytest.mark.parametrize("name", PACKS)
def test_a_hostile_member_of_a_pack_is_refused(name: str, tmp_path: Path) -> None:
    """And nothing of the pack is read."""
    pack = tmp_path / "a.pack"
    pack.write_bytes(make_pack(PACKS[name]))

    contents = read_archive(str(pack))

    assert (True, {}) == (contents.is_broken, contents.files)


def test_links_and_devices_in_the_folder_of_a_pack_are_not_read(tmp_path: Path) -> None:
    pack = tmp_path / "pack"
    pack.mkdir()
    (pack / "run.json").symlink_to("/etc/passwd")
    os.mkfifo(pack / "pipe")
    (tmp_path / "other").write_text("{}")
    os.link(tmp_path / "other", pack / "hard.json")

    contents = read_folder(str(pack))

    assert {} == contents.files
    assert {"run.json", "pipe", "hard.json"} == {violation.path for violation in contents.violations}


YAML_PIECES = [
    "&a ", "*a", "*b", "&b ", "<<: ", "- ", "? ", ": ", "[", "]", "{", "}", ",", "\n", "  ", "|", ">", "'", '"', "!!",
    "!!binary ", "!!int ", "!!float ", "!!timestamp ", "!!python/tuple ", "!!set ", "%TAG ! x\n", "---\n", "...\n",
    "interactions", "request", "1:2", "0x", "1e999", ".nan", "~", "yes", "\ufeff", "\x85", "\u2028", "a", "#", "\t",
    "!!python/object/new:_io.BytesIO ", "!<%41>", "2021-13-01",
]  # fmt: skip


@pytest.mark.fuzzer(40)
@given(st.lists(st.sampled_from(YAML_PIECES), max_size=60).map("".join))
@example("\ufeff\ufeff")
def test_any_yaml_is_read_or_refused(text: str) -> None:
    """And what is read is what PyYAML reads, wherever that reads it."""
    try:
        value = load_yaml(text.encode())
    except InvalidYaml:
        return
    # libyaml passes over every byte order mark, PyYAML's own scanner over the first alone.
    if "BytesIO" not in text and "tuple" not in text and "\ufeff" not in text[1:]:
        with suppress(yaml.YAMLError):  # It refuses a few texts that libyaml reads, such as a tab after an anchor.
            assert repr(yaml.safe_load(text)) == repr(value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@pytest.mark.fuzzer(20)
@given(st.dictionaries(st.sampled_from(["request", "response"]), json_values), json_values)
def test_any_interaction_is_read_or_refused(sides: dict[str, Any], extra: Any) -> None:
    """With values of every type in every place."""
    interaction = {
        side: {**call()[side], "headers": value, "status": value, "body": extra} for side, value in sides.items()
    }
    data = yaml.safe_dump({"interactions": [interaction]}).encode()
    with suppress(InvalidFile):
        read_cassette(data, "a.yaml")


def make_trace_archive(contents: bytes) -> bytes:
    """A trace archive with this table of contents."""
    return b"TFZ1" + contents + struct.pack("<II4s", zlib.crc32(contents), len(contents), b"TFZ1")


ARCHIVES = {
    "a bomb": zstandard.compress(bytes(300 << 20)),
    "a frame without a size": zstandard.ZstdCompressor(write_content_size=False).compress(bytes(1 << 20)),
    "a size that is not true": b"\x28\xb5\x2f\xfd\xe0" + struct.pack("<Q", 1 << 60) + b"\0" * 16,
    "deep arrays": zstandard.compress(b"\x91" * 1_000_000),
    "an array of 4 billion": zstandard.compress(b"\xdd\xff\xff\xff\xff"),
    "nothing": b"",
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_a_hostile_archive_is_refused(name: str, tmp_path: Path) -> None:
    """As an archive of traces, and as a pack."""
    traces, pack = tmp_path / "a.tfz", tmp_path / "a.pack"
    traces.write_bytes(make_trace_archive(ARCHIVES[name]))
    pack.write_bytes(ARCHIVES[name])

    with pytest.raises((InvalidFile, CannotRead)):
        TraceArchive(str(traces))
    contents = read_archive(str(pack))

    assert contents.is_broken
    assert not contents.files


@pytest.mark.fuzzer(60)
@given(st.binary(max_size=200), st.integers(0, 4), st.booleans())
def test_any_archive_is_read_or_refused(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, cut: int, packed: bool
) -> None:
    """Whatever its bytes are."""
    folder = tmp_path_factory.getbasetemp()
    content = zstandard.compress(data) if packed else data
    traces, pack = folder / "fuzz.tfz", folder / "fuzz.pack"
    traces.write_bytes(make_trace_archive(content)[cut:])
    pack.write_bytes(content)

    with pytest.raises((InvalidFile, CannotRead)):
        TraceArchive(str(traces))
    assert read_archive(str(pack)).is_broken


def test_lists_that_a_small_archive_announces_are_not_built(tmp_path: Path) -> None:
    """20 KB that hold millions of blocks once took gigabytes."""
    blocks = 3_000_000
    random_bytes = Random(1).randbytes(20_000)
    table = [b"\x93\xc6", struct.pack(">I", 20_000), random_bytes, b"\xdd", struct.pack(">I", blocks)]
    path = tmp_path / "a.tfz"
    path.write_bytes(make_trace_archive(zstandard.compress(b"".join([*table, b"\x92\0\0" * blocks, b"\x90"]))))

    tracemalloc.start()
    with pytest.raises(InvalidFile):
        TraceArchive(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert peak < 64 << 20


@pytest.mark.parametrize("name", ["twice", "overlapping"])
def test_entries_of_an_archive_that_share_bytes_are_refused(name: str, tmp_path: Path) -> None:
    """Many entries of one long trace would be a bomb for every command that reads them."""
    trace = plain_trace(1)
    contents = [b"", [[4, 10]], [[trace.summary, 0, 0, 9, 0], [trace.summary, 0, 0 if name == "twice" else 8, 9, 0]]]
    path = tmp_path / "a.tfz"
    path.write_bytes(make_trace_archive(zstandard.compress(msgspec.msgpack.encode(contents))))

    with pytest.raises(InvalidFile, match="overlap"):
        TraceArchive(str(path))


def write_blocks(path: Path, blocks: list[list[int]], lengths: list[int], data: bytes) -> None:
    """An archive with one entry in each block."""
    summary = plain_trace(1).summary
    contents = [b"", blocks, [[summary, number, 0, length, 0] for number, length in enumerate(lengths)]]
    packed = zstandard.compress(msgspec.msgpack.encode(contents))
    path.write_bytes(b"TFZ1" + data + make_trace_archive(packed)[4:])


def test_blocks_of_an_archive_that_share_bytes_are_refused(tmp_path: Path) -> None:
    """A block that is named again takes two bytes, and 100 ms to decompress: 100 KB took an hour."""
    path, data = tmp_path / "a.tfz", zstandard.compress(b"trace")
    write_blocks(path, [[4, len(data)]] * 2, [5, 5], data)
    with pytest.raises(InvalidFile, match="two of its blocks overlap"):
        TraceArchive(str(path))

    write_blocks(path, [[4, len(data)], [4 + len(data), len(data)]], [5, 5], data * 2)
    assert b"trace" == TraceArchive(str(path)).read_entry(1).trace


def test_blocks_of_an_archive_expand_to_what_their_entries_need(tmp_path: Path) -> None:
    """And no archive needs more than one that is written."""
    path, data = tmp_path / "a.tfz", zstandard.compress(b"trace")
    write_blocks(path, [[4, len(data)]], [4], data)
    with pytest.raises(InvalidFile, match="block 0 cannot be read"):
        TraceArchive(str(path)).read_entry(0)

    write_blocks(path, [[4, len(data)], [4 + len(data), len(data)]], [400 << 20, 200 << 20], data * 2)
    with pytest.raises(InvalidFile, match="it holds more than 536870912 bytes"):
        TraceArchive(str(path))
