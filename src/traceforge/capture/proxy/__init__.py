"""The reverse proxy: an application sends its calls here instead of to its provider, and notices nothing.

The modules in the order of a call: `proxy_server` accepts, `client_connection` reads a request, `admission` checks it
and finds its route, `relayed_call` forwards it through `upstream_pool` and `upstream_connection`, or `replayed_call`
answers it from a recording; `call_recording` reports it to the engine. `worker` is one process, `worker_supervisor`
runs several.
"""
