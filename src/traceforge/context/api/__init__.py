"""The operations of the store: their table, the store of this process, the clients, idempotency keys."""
