"""Makes `python -m traceforge.model_server` work."""

import sys

from traceforge.model_server.http_server import main

sys.exit(main())
