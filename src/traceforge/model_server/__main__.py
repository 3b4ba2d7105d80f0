"""Makes `python -m traceforge.model_server` work."""

import sys

if not sys.flags.safe_path:
    del sys.path[0]  # As in `traceforge.__main__`.

from traceforge.model_server.http_server import main

sys.exit(main())
