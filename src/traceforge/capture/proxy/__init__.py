"""The reverse proxy: an application calls us instead of its provider, and notices nothing.

In the order in which a call travels: `server` accepts, `client` reads a request (`head`, `body`), `guard` lets it in,
`routes` says where it goes, `relay` passes it on through `upstream` and its `pool`, `watch` tells the engine.
"""
