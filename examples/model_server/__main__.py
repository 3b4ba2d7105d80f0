"""Makes `python examples/model_server` work, as well as `python -m model_server`."""

import sys
from pathlib import Path

if not __package__:
    sys.path[0] = str(Path(__file__).resolve().parent.parent)

from model_server.server import main

sys.exit(main())
