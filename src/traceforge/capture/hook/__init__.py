"""The hook: sees the calls that HTTP clients of this process make, and changes nothing; in a replay, answers them.

In: client modules (httpx, httpx2, aiohttp, requests), as they are imported. Out: events of each model call, told to a
watcher. Never: imports anything but the standard library, or from elsewhere in TraceForge: the same files enter
processes in which TraceForge is not installed, on Python 3.9 and later, under the name `_traceforge_hook`.

A watcher is anything with one method, `begin(method, url, headers, source)`. It returns None for a call that is not
its own, or an object that is told the rest: see `guarded_call.py`. One that has `plays` answers calls from
recordings, and then decides about every call to a provider.
"""
