"""`python examples/model_server`: the package's own `traceforge.model_server`, also where nothing is installed."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).resolve().parents[2] / "src")  # It needs Python and nothing else.

from traceforge.model_server.http_server import main

sys.exit(main())
