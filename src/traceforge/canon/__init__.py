"""Text and bytes to hashes: one JSON reader, two exact writers and a fast one, digests. Pure."""

from traceforge.canon.digests import (
    DIGEST_PATTERN,
    Digest,
    FieldsDigest,
    digest_bytes,
    digest_canonical,
    digest_canonical_line,
    digest_ecmascript,
    digest_fields,
    digest_text,
    encode_utf8,
)
from traceforge.canon.fast_writer import ascii_json, json_bytes
from traceforge.canon.json_reader import (
    has_repeated_names,
    is_deeper_than,
    parse_all_members,
    parse_exact_json,
    parse_json,
    try_parse_json,
)
from traceforge.canon.json_types import DEPTH_MAX, JSON, PATHS_LENGTH_MAX, JSONObject, json_path, measure_paths
from traceforge.canon.json_writer import (
    canonical_bytes,
    canonicalize,
    ecmascript_bytes,
    exact_canonical_bytes,
    exact_ecmascript_bytes,
)
from traceforge.canon.numbers import number_text
from traceforge.canon.strict_reader import find_conflict_marker, find_repeated_name

__all__ = [
    "DEPTH_MAX",
    "DIGEST_PATTERN",
    "JSON",
    "PATHS_LENGTH_MAX",
    "Digest",
    "FieldsDigest",
    "JSONObject",
    "ascii_json",
    "canonical_bytes",
    "canonicalize",
    "digest_bytes",
    "digest_canonical",
    "digest_canonical_line",
    "digest_ecmascript",
    "digest_fields",
    "digest_text",
    "ecmascript_bytes",
    "encode_utf8",
    "exact_canonical_bytes",
    "exact_ecmascript_bytes",
    "find_conflict_marker",
    "find_repeated_name",
    "has_repeated_names",
    "is_deeper_than",
    "json_bytes",
    "json_path",
    "measure_paths",
    "number_text",
    "parse_all_members",
    "parse_exact_json",
    "parse_json",
    "try_parse_json",
]
