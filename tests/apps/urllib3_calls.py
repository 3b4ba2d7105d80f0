"""Calls through urllib3 and requests in one process, to the URL in argv. Prints how each was recorded."""

import io
import json
import sys

import requests
import urllib3

import traceforge
from traceforge.capture.recorder import MemoryRecorder

URL = sys.argv[1]


def ask(**options):
    return urllib3.PoolManager().request("POST", URL, body=b"{}", preload_content=False, **options)


def send_text():
    return urllib3.PoolManager().request("POST", URL, body=io.StringIO("caf\u00e9")).data


CASES = {
    "read of the length": lambda: ask().read(7),
    "read beyond it": lambda: ask().read(4096),
    "stream": lambda: b"".join(ask().stream()),
    "stream in pieces": lambda: b"".join(ask().stream(3)),
    "lines": lambda: b"".join(ask()),
    "preloaded": lambda: urllib3.PoolManager().request("POST", URL, body=b"{}").data,
    "requests": lambda: requests.post(URL, data=b"{}", timeout=9).content,
    "half": lambda: ask().read(3),
    "text": send_text,
}
reports = {}
for name, call in CASES.items():
    sink = MemoryRecorder()
    with traceforge.capture(sink=sink):
        data = call()
    reports[name] = [data.decode(), *(exchange.outcome.value for exchange in sink.exchanges)]
print(json.dumps({"version": urllib3.__version__, "calls": reports}))
