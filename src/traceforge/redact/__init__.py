"""Redaction: secrets and personal data are replaced before anything is stored or matched. Pure.

google-re2 is imported when a `Redactor` first looks at a text, and not before: most commands need none.
"""

from traceforge.redact.markers import Markers
from traceforge.redact.redactor import Redactor
from traceforge.redact.spans import REDACTED, Echo, Redacted, Redaction, Span, echoes
from traceforge.redact.streams import TextStream

__all__ = ["REDACTED", "Echo", "Markers", "Redacted", "Redaction", "Redactor", "Span", "TextStream", "echoes"]
