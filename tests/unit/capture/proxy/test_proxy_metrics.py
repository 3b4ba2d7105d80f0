"""What a proxy says about its recorder: in the metrics while it runs, and in the summary when it stops."""

from __future__ import annotations

import pytest

from traceforge.capture.proxy.proxy_metrics import ProxyMetrics
from traceforge.capture.recording_counts import RecordingCounts
from traceforge.cli.proxy_command import _print_summary

# One segment of the spool is still there; of the other, files have been made.
SEGMENTS = {__file__: 10, f"{__file__}.gone": 70}
COUNTS = RecordingCounts(accepted=100, recorded=80, lost=3, failed={"disk": 2}, segments=SEGMENTS)


def test_the_metrics_say_how_far_the_recorder_is_behind() -> None:
    """Calls that wait, and traces that are not files yet."""
    lines = ProxyMetrics().render(COUNTS.by_result(), 0, 0).decode().splitlines()

    assert 'traceforge_proxy_exchanges_waiting{worker="0"} 15' in lines
    assert 'traceforge_proxy_traces_in_spool{worker="0"} 10' in lines
    assert 'traceforge_proxy_exchanges_total{result="recorded",worker="0"} 80' in lines
    assert 'traceforge_proxy_exchanges_total{result="lost",worker="0"} 3' in lines
    assert 'traceforge_proxy_exchanges_total{result="failed",worker="0"} 2' in lines


def test_the_summary_says_how_far_the_recorder_was_behind(capsys: pytest.CaptureFixture[str]) -> None:
    """And nothing of it where everything is a file."""
    _print_summary({"calls": 100, **COUNTS.by_result()})
    _print_summary({"calls": 2, **RecordingCounts(accepted=2, recorded=2).by_result()})
    behind, done = capsys.readouterr().err.splitlines()

    assert "100 calls, 80 recorded, 3 lost, 2 recording failures" in behind
    assert behind.endswith("15 still being recorded, 10 in the spool, of which the next command makes files")
    assert done.endswith("0 upstream errors")
