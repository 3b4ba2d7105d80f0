"""Metrics in the text format of Prometheus."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Sample(NamedTuple):
    """One value of a metric. `suffix` is that of a histogram's parts: `_bucket`, `_sum`, `_count`."""

    labels: Mapping[str, object]
    value: int | str
    suffix: str = ""


class Metric(NamedTuple):
    """A metric with its samples. Label values must be ours, never a client's: that bounds the number of series."""

    name: str
    kind: Literal["counter", "gauge", "histogram"]
    help: str
    samples: Iterable[Sample]


def render_metrics(metrics: Iterable[Metric]) -> bytes:
    """Write metrics in Prometheus' text format."""
    lines: list[str] = []
    for metric in metrics:
        lines += [f"# HELP {metric.name} {metric.help}", f"# TYPE {metric.name} {metric.kind}"]
        lines += [f"{metric.name}{sample.suffix}{_labels(sample.labels)} {sample.value}" for sample in metric.samples]
    return ("\n".join(lines) + "\n").encode()


def _labels(labels: Mapping[str, object]) -> str:
    if not labels:
        return ""
    pairs = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"{{{pairs}}}"
