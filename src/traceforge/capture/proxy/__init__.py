"""The reverse proxy: an application calls us instead of its provider, and notices nothing.

In the order in which a call travels: `server` accepts, `client` reads a request (`head`, `body`), `door` asks `guard`
to let it in and `routes` where it goes, `relay` passes it on through `upstream` and its `pool`, `watch` tells the
engine. `process` is one worker from its start to its end, and `workers` minds several.
"""
