"""The hook: watches the calls that HTTP clients of a process make, and changes nothing; in a replay, answers them.

In: client modules (httpx, httpx2, aiohttp, requests), as they are imported. Out: each model call, reported to a
`watcher.Watcher`. Never: imports anything but the standard library, or from elsewhere in TraceForge: the same files
enter processes in which TraceForge is not installed, on Python 3.9 and later, under the name `_traceforge_hook`.

    bootstrap, clients, patches, client_*    how the hook gets into a process and into its clients
    dispatch                                 which watcher a call belongs to
    guarded_call, in_flight_call             one call, from its first byte to its end
    held_calls                               a call that the application cancels again in a replay
    child_watcher, frame_sender, …           how a child process reports its calls to `traceforge run`
    tripwire                                 what a test may connect to
"""
