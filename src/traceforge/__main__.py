"""`python -m traceforge` is the `traceforge` command."""

from traceforge.cli.main import main

main()
