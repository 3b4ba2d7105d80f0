"""Any command: run it, see the model calls of every process it starts, and leave it alone otherwise."""
