"""Every error that TraceForge raises on purpose. `all_errors` lists them.

    TraceForgeError                TF000
    ├── NotJSON                    TF101  a text is not JSON
    ├── NotCanonical               TF102  a value cannot be written as JSON
    ├── InvalidFile                TF103  a file is JSON and breaks the rules of its format
    │   └── UnknownVersion         TF104  a file has a version that we cannot read
    ├── CannotRead                 TF201  a file cannot be read
    ├── CannotWrite                TF202  a file or a stream cannot be written
    ├── NotFound                   TF203  no object has this name, or several have it
    ├── PathInUse                  TF204  another process writes here, or a file exists already
    ├── BrokenJournal              TF205  an approval was interrupted and cannot be finished
    ├── CannotSign                 TF206  a signature cannot be made or checked
    ├── RecordingFull              TF207  a recording has reached a limit of its format
    ├── TrackedState               TF208  Git tracks files that belong to one machine
    ├── BaseUnavailable            TF209  the commit that a build is compared with is not in the clone
    ├── WrongMatchKey              TF210  the match key here is not that of the project
    ├── InvalidConfig              TF401  the configuration cannot be used
    ├── MissingExtra               TF402  an optional package is not installed
    ├── UntrustedProject           TF403  another user configured the project
    ├── ForeignPackage             TF404  another project called traceforge is installed
    ├── UnusableDialect            TF405  a dialect of an installed package cannot be used
    ├── CannotListen               TF501  a server cannot use an address
    ├── CannotStart                TF502  a command cannot be started
    ├── ProviderFailed             TF503  a provider gave no usable answer
    ├── CallNotRecorded            TF601  a call could not be replayed
    ├── PromptNotRecorded          TF602  a recording has no answer for a prompt
    ├── UnusedInteractions         TF603  recorded answers were not used by a replay
    ├── CannotApprove              TF701  a pending change cannot be approved
    ├── StoreRefused               TF801  the context store refused a request
    │   ├── BranchConflict         TF802  another writer appended to the branch first
    │   ├── ContentPurged          TF803  the content was purged
    │   └── InvalidFields          TF805  a request has wrong, missing or unknown fields
    ├── StoreUnavailable           TF804  the database or its keyring cannot be used
    │   └── InvalidStoreAddress    TF806  the address of a store cannot be read
    └── InternalError              TF999  a mistake in TraceForge

A code is stable: it is printed, documented in docs/reference/errors.md, and never gets a second meaning. An exit code
of 1 means that something was found, 2 that an option cannot be used, 3 that something could not be checked. A hint is
something to do. Messages hold paths, positions, digests and types, never a value that could be a secret: build logs
are public.
"""

from __future__ import annotations

from traceforge.errors.base import InternalError, TraceForgeError
from traceforge.errors.call_errors import (
    NOT_REPLAYABLE_HINT,
    CallNotRecorded,
    CannotListen,
    CannotStart,
    FailureKind,
    PromptNotRecorded,
    ProviderFailed,
    UnusedInteractions,
)
from traceforge.errors.file_errors import (
    CONFLICT_HINT,
    CONFLICT_MARKERS,
    LOST_KEY_HINT,
    STDOUT_HINT,
    BaseUnavailable,
    BrokenJournal,
    CannotRead,
    CannotSign,
    CannotWrite,
    InvalidFile,
    NotCanonical,
    NotFound,
    NotJSON,
    PathInUse,
    RecordingFull,
    TrackedState,
    UnknownVersion,
    WrongMatchKey,
)
from traceforge.errors.project_errors import (
    CannotApprove,
    ForeignPackage,
    InvalidConfig,
    MissingExtra,
    UntrustedProject,
    UnusableDialect,
)
from traceforge.errors.store_errors import (
    BranchConflict,
    ContentPurged,
    InvalidFields,
    InvalidStoreAddress,
    StoreRefused,
    StoreUnavailable,
)

__all__ = [
    "CONFLICT_HINT",
    "CONFLICT_MARKERS",
    "LOST_KEY_HINT",
    "NOT_REPLAYABLE_HINT",
    "STDOUT_HINT",
    "BaseUnavailable",
    "BranchConflict",
    "BrokenJournal",
    "CallNotRecorded",
    "CannotApprove",
    "CannotListen",
    "CannotRead",
    "CannotSign",
    "CannotStart",
    "CannotWrite",
    "ContentPurged",
    "FailureKind",
    "ForeignPackage",
    "InternalError",
    "InvalidConfig",
    "InvalidFields",
    "InvalidFile",
    "InvalidStoreAddress",
    "MissingExtra",
    "NotCanonical",
    "NotFound",
    "NotJSON",
    "PathInUse",
    "PromptNotRecorded",
    "ProviderFailed",
    "RecordingFull",
    "StoreRefused",
    "StoreUnavailable",
    "TraceForgeError",
    "TrackedState",
    "UnknownVersion",
    "UntrustedProject",
    "UnusableDialect",
    "UnusedInteractions",
    "WrongMatchKey",
    "all_errors",
]


def all_errors() -> tuple[type[TraceForgeError], ...]:
    """Every error class that has a code of its own, sorted by code."""
    classes: list[type[TraceForgeError]] = [TraceForgeError]
    for cls in classes:
        classes.extend(cls.__subclasses__())
    return tuple(sorted({cls for cls in classes if "code" in vars(cls)}, key=lambda cls: cls.code))
