"""How long an artifact is kept: `ephemeral` content expires, all other content stays until it is purged.

The time is a setting, TRACEFORGE_CONTEXT_EPHEMERAL_HOURS, and is fixed when the artifact is stored. It ends at a full
hour: a purge encrypts the keys of its whole project again, so what expires within an hour is purged together.
"""

from __future__ import annotations

import os
import re
from datetime import timedelta

from traceforge.clock import now, timestamp_text
from traceforge.config import CONFIG_RULE
from traceforge.context.model.objects import RetentionClass
from traceforge.errors import InvalidConfig
from traceforge.findings import Finding

EPHEMERAL_HOURS_VARIABLE = "TRACEFORGE_CONTEXT_EPHEMERAL_HOURS"
EPHEMERAL_HOURS = 24
_HOURS = re.compile(r"[1-9][0-9]{0,4}\Z")  # Up to eleven years.


def read_ephemeral_hours() -> int:
    """How many hours ephemeral content is kept.

    Raises:
        InvalidConfig: the setting is not a whole number of hours.
    """
    text = os.environ.get(EPHEMERAL_HOURS_VARIABLE) or str(EPHEMERAL_HOURS)
    if not _HOURS.match(text):
        hint = f"Set the hours for which ephemeral content is kept, or leave it out: {EPHEMERAL_HOURS} hours."
        message = "must be a whole number from 1 to 99999"
        raise InvalidConfig((Finding(EPHEMERAL_HOURS_VARIABLE, "", CONFIG_RULE, message, hint),))
    return int(text)


def expiry_time(retention_class: RetentionClass) -> str | None:
    """The end of the hour in which an artifact that is stored now expires; None where it never does."""
    if retention_class is not RetentionClass.EPHEMERAL:
        return None
    end = now() + timedelta(hours=read_ephemeral_hours() + 1)
    return timestamp_text(end.replace(minute=0, second=0, microsecond=0))
