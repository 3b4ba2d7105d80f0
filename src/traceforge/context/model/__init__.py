"""The types of the store: objects, request bodies, content, the snapshot format, cache keys. No database."""
