"""The kernels of the invariant layer, executed by Triton's interpreter, agree with torch."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("orbit_interpreted.py")


def test_rows_averages_and_triangles_agree_with_torch():
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
