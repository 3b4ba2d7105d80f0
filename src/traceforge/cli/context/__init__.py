"""`traceforge context`: the commands of the context store, one module a group."""
