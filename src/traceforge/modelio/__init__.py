"""Recordings: the Model IO session, its core, its hash and its verifier."""

from traceforge.modelio.format import model_io_core, model_io_hash, write_session
from traceforge.modelio.verify import Invalid, Options, Valid, Violation, read_session, verify

__all__ = [
    "Invalid",
    "Options",
    "Valid",
    "Violation",
    "model_io_core",
    "model_io_hash",
    "read_session",
    "verify",
    "write_session",
]
