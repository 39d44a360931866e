"""The flow in CUDA C on a CPU, a thread for each of its own, under a sanitizer; needs g++.

``TRITON_INTERPRET=1 python tests/kernels/flow_emulated.py [address | thread]``: values and all
gradients are compared with torch in float64; see ``emulated.py``.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from symmetries.distributions import flow_check
from symmetries.distributions.flow import ConditionalFlow
from symmetries.distributions.flow_kernels import shape_of
from symmetries.kernels import flow_cuda

SOURCE = Path(flow_cuda.__file__).parent
SANITIZER = sys.argv[1] if len(sys.argv) > 1 else "address"
MAIN = """
#include "{header}"
#include "{source}/flow.cu"
#include "{source}/{name}.cu"
int main() {{
  std::vector<float> a[{count}];
  for (int i = 0; i < {count}; ++i) a[i] = read_all(("{folder}/" + std::to_string(i)).c_str());
  Constants c = {{{constants}}};
  auto kernel = [&] {{ {name}({arguments}, {n}, c); }};
  launch({blocks}, 1, 1, THREADS, 16, kernel);
  for (int i = 0; i < {count}; ++i) write_all(("{folder}/" + std::to_string(i)).c_str(), a[i]);
}}
"""
TYPES = {torch.bfloat16: "(unsigned short*)", torch.float32: ""}


class Emulated:
    """In the place of a compiled kernel."""

    def __init__(self, name, constants):
        self.name = name
        self.constants = constants

    def __call__(self, grid, threads, *arguments):
        """Compile, run, and fetch what was written."""
        *tensors, n, constants = arguments
        with tempfile.TemporaryDirectory() as folder:
            for i, tensor in enumerate(tensors):
                raw = tensor.detach().flatten().view(torch.uint8).numpy()
                np.concatenate((raw, np.zeros(-len(raw) % 4, np.uint8))).tofile(f"{folder}/{i}")
            main = MAIN.format(
                header=Path(__file__).with_name("emulation.h"),
                source=SOURCE,
                count=len(tensors),
                folder=folder,
                blocks=grid[0],
                name=self.name,
                n=n,
                constants=", ".join(repr(getattr(constants, f[0])) for f in constants._fields_),
                arguments=", ".join(
                    f"{'(unsigned char*)' if 'mask' in kind else TYPES[tensor.dtype]}a[{i}].data()"
                    for i, (tensor, kind) in enumerate(zip(tensors, kinds(self.name), strict=True))
                ),
            )
            Path(folder, "main.cpp").write_text(main)
            given = [f"-D{key}={value}" for key, value in self.constants.items()]
            options = ["-O1", "-g", "-std=c++17", "-w", "-pthread", "-fno-strict-aliasing"]
            build = ["g++", *options, f"-fsanitize={SANITIZER}", *given, "main.cpp", "-o", "main"]
            subprocess.run(build, cwd=folder, check=True)
            subprocess.run(["./main"], cwd=folder, check=True, env=os.environ)
            for i, tensor in enumerate(tensors):
                raw = np.fromfile(f"{folder}/{i}", dtype=np.uint8)[: tensor.nbytes]
                tensor.detach().flatten().view(torch.uint8).copy_(torch.from_numpy(raw))


def kinds(name):
    """Which of the arguments is the mask."""
    place = 5 if name == "flow_forward" else 3
    return ["mask" if i == place else "" for i in range(12 if name == "flow_forward" else 14)]


# dim, hidden, layers, bins, samples, dropout, contexts
CASES = (
    (5, 64, 3, 6, 1, 0.1, 21),
    (5, 96, 4, 6, 2, 0.0, 11),
    (2, 64, 2, 4, 1, 0.0, 5),
    (6, 64, 1, 6, 1, 0.25, 16),
)

if __name__ == "__main__":
    flow_cuda.cuda_kernel = lambda file, name, constants, *rest: Emulated(name, dict(constants))
    torch.manual_seed(0)
    for rounded in (False, True):
        for dim, hidden, layers, bins, samples, dropout, contexts in CASES:
            flow = ConditionalFlow(
                (1.0,) * dim, 8, layers=layers, bins=bins, hidden=hidden, base=(), dropout=dropout
            )
            shape = shape_of(flow, samples)._replace(cuda=True)
            flow_check.CONTEXTS = contexts
            error = flow_check._largest_error(shape, torch.device("cpu"), rounded=rounded)
            print(dim, hidden, layers, bins, samples, dropout, rounded, f"{error:.1e}", flush=True)  # noqa: T201
            if not error < (2e-2 if rounded else 1e-4):
                raise SystemExit("too far off")
