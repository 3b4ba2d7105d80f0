"""Calls of child processes."""

import subprocess
import sys


def test_subprocess():
    ran = subprocess.run([sys.executable, "child.py", "Who is there?"], capture_output=True, check=True)
    assert ran.stdout
