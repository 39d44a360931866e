"""A kernel in CUDA C on a CPU, a thread for each of its own, under a sanitizer; needs g++.

In the place of :func:`symmetries.ops.cuda.compiler.cuda_kernel`; see ``emulation.h``.
"""

import ctypes
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

import symmetries.ops.cuda

SOURCE = Path(symmetries.ops.cuda.__file__).parent
SANITIZER = sys.argv[1] if len(sys.argv) > 1 else "address"
MAIN = """
#include "{header}"
{sources}
struct Any {{
  void* at;
  template <typename T> operator T*() const {{ return (T*)at; }}
}};
int main() {{
  std::vector<float> a[{count}];
  for (int i = 0; i < {count}; ++i) a[i] = read_all(("{folder}/" + std::to_string(i)).c_str());
  auto kernel = [&] {{ {name}({arguments}); }};
  launch({blocks}, 1, 1, {threads}, 16, kernel);
  for (int i = 0; i < {count}; ++i) write_all(("{folder}/" + std::to_string(i)).c_str(), a[i]);
}}
"""


def written(argument, place):
    """An argument in C."""
    if isinstance(argument, torch.Tensor):
        return f"Any{{a[{place}].data()}}"
    if isinstance(argument, ctypes.Structure):
        fields = (repr(getattr(argument, field[0])) for field in argument._fields_)
        return f"Constants{{{', '.join(fields)}}}"
    return repr(argument)


class Emulated:
    """In the place of a compiled kernel."""

    def __init__(self, file, name, constants, *_rest):
        self.file = file
        self.name = name
        self.constants = constants

    def __call__(self, grid, threads, *arguments):
        """Compile, run, and fetch what was written; tensors go first."""
        tensors = [t for t in arguments if isinstance(t, torch.Tensor)]
        with tempfile.TemporaryDirectory() as folder:
            for i, tensor in enumerate(tensors):
                raw = tensor.detach().flatten().view(torch.uint8).numpy()
                np.concatenate((raw, np.zeros(-len(raw) % 4, np.uint8))).tofile(f"{folder}/{i}")
            main = MAIN.format(
                header=Path(__file__).with_name("emulation.h"),
                sources="\n".join(f'#include "{SOURCE}/{part}"' for part in self.file.split()),
                count=len(tensors),
                folder=folder,
                blocks=grid[0],
                threads=threads,
                name=self.name,
                arguments=", ".join(written(each, i) for i, each in enumerate(arguments)),
            )
            Path(folder, "main.cpp").write_text(main)
            given = [f"-D{key}={value}" for key, value in self.constants]
            options = ["-O1", "-g", "-std=c++17", "-w", "-pthread", "-fno-strict-aliasing"]
            build = ["g++", *options, f"-fsanitize={SANITIZER}", *given, "main.cpp", "-o", "main"]
            subprocess.run(build, cwd=folder, check=True)
            subprocess.run(["./main"], cwd=folder, check=True, env=os.environ)
            for i, tensor in enumerate(tensors):
                raw = np.fromfile(f"{folder}/{i}", dtype=np.uint8)[: tensor.nbytes]
                tensor.detach().flatten().view(torch.uint8).copy_(torch.from_numpy(raw))
