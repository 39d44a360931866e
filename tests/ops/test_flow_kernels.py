"""The flow's kernels, executed by Triton's interpreter, agree with torch's operations."""

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).with_name("flow_interpreted.py")


def test_log_density_agrees_with_torch_in_value_gradient_and_second_gradient():
    environment = os.environ | {"TRITON_INTERPRET": "1"}
    command = [sys.executable, str(SCRIPT)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    assert len(done.stdout.splitlines()) == 3
