"""HTTP/1.1 that our servers share: the proxy, the chat and the context server.

`message_head` and `body_framing` read messages, `access` checks Host, Origin and token, `plain_response` writes short
responses, `event_stream` reads server-sent events, `serving` binds sockets and handles stop signals.
"""
