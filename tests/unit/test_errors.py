"""`errors`: one shallow tree, stable codes, errors that can cross a process border."""

from __future__ import annotations

import copy
import errno
import gc
import os
import pickle
import re
from collections.abc import Callable

import pytest

import traceforge.errors
from traceforge.errors import (
    BaseUnavailable,
    BranchConflict,
    BrokenJournal,
    CallNotRecorded,
    CannotApprove,
    CannotListen,
    CannotRead,
    CannotSign,
    CannotStart,
    CannotWrite,
    ContentPurged,
    ForeignPackage,
    InternalError,
    InvalidConfig,
    InvalidFields,
    InvalidFile,
    InvalidStoreAddress,
    MissingExtra,
    NotCanonical,
    NotFound,
    NotJSON,
    PathInUse,
    PromptNotRecorded,
    ProviderFailed,
    RecordingFull,
    StoreRefused,
    StoreUnavailable,
    TraceForgeError,
    TrackedState,
    UnknownVersion,
    UntrustedProject,
    UnusableDialect,
    UnusedInteractions,
    WrongMatchKey,
    all_errors,
)
from traceforge.findings import ExitCode, Finding

FINDINGS = (
    Finding("a.json", "$.x", "SN1", "must be number, got string", "Do this."),
    Finding("a.json", "$.y", "SN1", "required field y is missing"),
)

# One way to make each error; a class that is not here fails the first test.
MAKERS: dict[type[TraceForgeError], Callable[[], TraceForgeError]] = {
    TraceForgeError: lambda: TraceForgeError("it broke", hint="mend it"),
    NotJSON: lambda: NotJSON("unexpected end", line=3, column=7, offset=41),
    NotCanonical: lambda: NotCanonical("$.a[0]", "NaN"),
    InvalidFile: lambda: InvalidFile(FINDINGS),
    UnknownVersion: lambda: UnknownVersion(FINDINGS),
    CannotRead: lambda: CannotRead("a.json", "no such file", hint="Check the path."),
    CannotWrite: lambda: CannotWrite("a.json", "no space left on device"),
    NotFound: lambda: NotFound("there is no trace abcd", hint="See: traceforge trace list"),
    PathInUse: lambda: PathInUse("another process is changing the snapshots", hint="Wait until it is done."),
    BrokenJournal: lambda: BrokenJournal(".ai-tests/approve.journal", "the journal is damaged"),
    CannotSign: lambda: CannotSign("Git names no SSH key", hint="git config gpg.format ssh"),
    BaseUnavailable: lambda: BaseUnavailable("the base is not in this clone", hint="Run: git fetch", fetch=["x"]),
    TrackedState: lambda: TrackedState([".ai-tests/approve.journal", ".ai-tests/match.key"]),
    WrongMatchKey: lambda: WrongMatchKey("a" * 32, "b" * 32),
    RecordingFull: lambda: RecordingFull("a recording has at most 10000 interactions (MI4)"),
    InvalidConfig: lambda: InvalidConfig(FINDINGS),
    MissingExtra: lambda: MissingExtra("PyYAML is not installed", "vcr"),
    ForeignPackage: lambda: ForeignPackage("another project called traceforge is installed", hint="pip uninstall it"),
    UnusableDialect: lambda: UnusableDialect("the dialect acme (acme_dialect) has no DIALECT"),
    UntrustedProject: lambda: UntrustedProject("/tmp/traceforge.config.json", hint="traceforge trust /tmp"),
    CannotListen: lambda: CannotListen("127.0.0.1", 80, "permission denied"),
    CannotStart: lambda: CannotStart("no-such-command", "no such file or directory"),
    ProviderFailed: lambda: ProviderFailed("openai-chat m gave no answer: status 500", hint="Ask again."),
    CallNotRecorded: lambda: CallNotRecorded(["one", "two", "two"]),
    PromptNotRecorded: lambda: PromptNotRecorded(
        3, "sha256:ab", "which was not recorded", ["sha256:cd"], "the nearest is near"
    ),
    UnusedInteractions: lambda: UnusedInteractions([1, 2], 3),
    CannotApprove: lambda: CannotApprove("it was refused", hint="Record again."),
    StoreRefused: lambda: StoreRefused("no such field", reason="unknown_field", param="hue", hint="Leave it out."),
    BranchConflict: lambda: BranchConflict(3, None, expected="version 2 with head evt_a"),
    ContentPurged: lambda: ContentPurged("snp_1", "pur_1"),
    StoreUnavailable: lambda: StoreUnavailable("the database cannot be reached", hint="Start it."),
    InvalidStoreAddress: lambda: InvalidStoreAddress("the URL of the server cannot be read", hint="Write it."),
    InvalidFields: lambda: InvalidFields([("hue", "unknown field"), ("event.content", "must be string")]),
    InternalError: lambda: InternalError("a mistake of ours"),
}
EVERY_ERROR = pytest.mark.parametrize("cls", list(MAKERS), ids=lambda cls: cls.__name__)


def _ours() -> set[type[TraceForgeError]]:
    """Tests may define errors of their own; those are not the product's."""
    return {cls for cls in all_errors() if cls.__module__.startswith("traceforge")}


def test_every_error_of_the_module_is_listed_and_tested_here() -> None:
    """`all_errors` misses none that the module defines, and this file makes each of them."""
    defined = {
        thing
        for thing in vars(traceforge.errors).values()
        if isinstance(thing, type) and issubclass(thing, TraceForgeError)
    }

    assert defined <= set(all_errors())
    assert set(MAKERS) == defined == _ours()


def test_all_errors_finds_the_children_of_children_once_and_sorts_by_code() -> None:
    """An error defined in another room, at any depth, is listed too."""
    listed = _codes_with_two_more()
    gc.collect()  # The two classes must not be there for the tests that follow.

    assert {"TF998a", "TF998b"} <= set(listed)
    assert len(set(listed)) == len(listed)
    assert sorted(listed) == listed
    assert not [cls for cls in all_errors() if cls.code.startswith("TF998")]


def _codes_with_two_more() -> list[str]:
    class Deeper(CannotRead):
        code = "TF998b"

    class Deepest(Deeper):
        code = "TF998a"

    assert issubclass(Deepest, Deeper)
    return [cls.code for cls in all_errors()]


def test_every_code_is_unique_and_has_the_same_form() -> None:
    """A code is never given a second meaning."""
    codes = [cls.code for cls in _ours()]

    assert len(set(codes)) == len(codes)
    assert all(re.fullmatch(r"TF[0-9]{3}", code) for code in codes)
    assert all("code" in vars(cls) for cls in _ours())


def test_the_tree_at_the_top_of_the_module_names_every_class_with_its_code() -> None:
    """The drawing that readers see is the tree that exists."""
    drawn = dict(re.findall(r"(\w+) +(TF[0-9]{3})", traceforge.errors.__doc__ or ""))

    assert {cls.__name__: cls.code for cls in _ours()} == drawn


def test_every_error_names_the_module_that_it_is_imported_from() -> None:
    """In a traceback too, so that its name can be pasted into an `except`."""
    assert {"traceforge.errors"} == {cls.__module__ for cls in MAKERS}


@EVERY_ERROR
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_is_the_same_after_pickling(cls: type[TraceForgeError], protocol: int) -> None:
    """A worker process can raise it, and the parent prints the same."""
    error = MAKERS[cls]()
    revived = pickle.loads(pickle.dumps(error, protocol))

    assert cls is type(revived)
    assert (str(error), error.args, vars(error)) == (str(revived), revived.args, vars(revived))


@EVERY_ERROR
def test_an_error_is_the_same_after_copying(cls: type[TraceForgeError]) -> None:
    """`copy` takes the way of pickle."""
    error = MAKERS[cls]()

    assert (str(error), vars(error)) == (str(copy.copy(error)), vars(copy.deepcopy(error)))


@EVERY_ERROR
def test_an_error_prints_its_message_and_has_an_exit_code(cls: type[TraceForgeError]) -> None:
    """`str` is the sentence for a person, the hint stays apart, the exit code is 1 or 3."""
    error = MAKERS[cls]()

    assert error.message == str(error)
    assert isinstance(error.hint, str)
    assert error.exit_code in (ExitCode.FINDINGS, ExitCode.USAGE, ExitCode.UNCHECKED)


def test_only_an_invalid_file_and_an_unrecorded_call_are_findings() -> None:
    """All other errors mean that nothing could be checked."""
    own_errors = {InvalidFile, UnknownVersion, PromptNotRecorded, CallNotRecorded, UnusedInteractions}
    assert own_errors == {cls for cls in _ours() if cls.exit_code is ExitCode.FINDINGS}


def test_invalid_json_has_a_place_and_becomes_a_parse_finding() -> None:
    """Line, column and offset are kept; the finding belongs to the file as a whole."""
    error = NotJSON("unexpected end", line=3, column=7, offset=41)

    assert "unexpected end at line 3 column 7" == error.message
    assert (3, 7, 41) == (error.line, error.column, error.offset)
    assert Finding("a.json", "", "PARSE", f"not JSON: {error.message}", error.hint) == error.finding("a.json")


def test_an_unreadable_file_becomes_an_io_finding() -> None:
    """The finding has the reason without the path, which is its file."""
    error = CannotRead("/long/a.json", "no permission to read it", hint="chmod u+r a.json")

    assert "/long/a.json: no permission to read it" == str(error)
    assert Finding("a.json", "", "IO", "no permission to read it", "chmod u+r a.json") == error.finding("a.json")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (InvalidFile(FINDINGS[:1]), "must be number, got string at $.x"),
        (InvalidFile(FINDINGS), "must be number, got string at $.x (and 1 more)"),
        (InvalidFile(FINDINGS).in_file("b.json"), "b.json: $.x: must be number, got string (and 1 more)"),
        (InvalidConfig(FINDINGS[:1]), "a.json: must be number, got string"),
        (InvalidConfig(FINDINGS), "a.json: must be number, got string (and 1 more: traceforge config check)"),
    ],
)
def test_an_error_over_findings_quotes_the_first_and_counts_the_others(
    error: InvalidFile | InvalidConfig, message: str
) -> None:
    """The message is one line; all findings are on the error."""
    assert message == str(error)
    assert "Do this." == error.hint
    assert FINDINGS[: len(error.findings)] == error.findings


@pytest.mark.parametrize(
    ("number", "hint"),
    [
        (errno.ENOSPC, "Free some space, or choose another path."),
        (errno.EACCES, "Give your user the permission to write there, or choose another path."),
        (errno.EROFS, "Choose another path: this file system is read-only."),
        (errno.ENOENT, "Create the folder first, or choose another path."),
        (errno.EIO, "Check the disk, or choose another path."),
    ],
)
def test_the_hint_of_a_failed_write_follows_from_the_system_error(number: int, hint: str) -> None:
    """Only a full disk needs space."""
    error = CannotWrite("a.json", OSError(number, os.strerror(number)))

    assert f"a.json cannot be written: {os.strerror(number).lower()}" == error.message
    assert hint == error.hint


def test_calls_and_answers_are_counted_from_one_in_messages() -> None:
    """The attributes are positions, from 0."""
    prompt = PromptNotRecorded(0, "sha256:ab", "which was not recorded", [])
    unused = UnusedInteractions([1, 2], 3)

    assert prompt.message.startswith("call 1 of the replay sent prompt sha256:ab")
    assert "2 of 3 recorded answers were not used: answers 2, 3" == unused.message
    assert (0, (1, 2)) == (prompt.position, unused.unused)
