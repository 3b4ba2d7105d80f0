"""`python -m traceforge` is the `traceforge` command."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # `-m` puts the current folder there, and a checkout could bring a `json.py`.

from traceforge_gate import main

main()
