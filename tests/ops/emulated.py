"""The warps in CUDA C on a CPU, a thread for each of theirs, under a sanitizer; needs g++.

``python tests/ops/emulated.py [address | thread]``: every access outside of what a block was
given, or every race, ends it; values and gradients are compared with torch in float64.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch

from symmetries.ops.affine_exp import affine_exp
from symmetries.ops.cuda import warp_cuda
from symmetries.ops.warp import _grid_warp

SOURCE = Path(warp_cuda.__file__).with_name("warp.cu")
SANITIZER = sys.argv[1] if len(sys.argv) > 1 else "address"
MAIN = """
#include "{header}"
{code}
int main() {{
  std::vector<float> a[5];
  for (int i = 0; i < {count}; ++i) a[i] = read_all(("{folder}/" + std::to_string(i)).c_str());
  auto kernel = [&] {{ {name}({arguments}, {steps}); }};
  launch({blocks}, {channels}, {versions}, THREADS, {shared}, kernel);
  for (int i = 0; i < {count}; ++i) write_all(("{folder}/" + std::to_string(i)).c_str(), a[i]);
}}
"""


def emulate(made, name, *tensors, to_images=False, to_map=False):
    """In the place of a launch: compile, run, and fetch what was written."""
    flags = {"TO_IMAGES": int(to_images), "TO_MAP": int(to_map)}
    flags["FOURS"] = int(made.by_fours(to_images, to_map))
    code = SOURCE.read_text().replace("extern __shared__ float memory[];", "")
    with tempfile.TemporaryDirectory() as folder:
        for i, tensor in enumerate(tensors):
            tensor.numpy().tofile(f"{folder}/{i}")
        main = MAIN.format(
            header=Path(__file__).with_name("emulation.h"),
            code=code,
            count=len(tensors),
            folder=folder,
            blocks=made.n,
            channels=made.channels,
            versions=1 if to_images else made.versions,
            shared=max(1, to_images + to_map) * made.source,
            name=name,
            arguments=", ".join(f"a[{i}].data()" for i in range(len(tensors))),
            steps=", ".join(map(str, (made.versions, *made.steps))),
        )
        Path(folder, "main.cpp").write_text(main)
        given = [f"-D{key}={value}" for key, value in (made.constants | flags).items()]
        options = ["-O1", "-g", "-std=c++17", "-w", "-pthread", "-fno-strict-aliasing"]
        build = ["g++", *options, f"-fsanitize={SANITIZER}", *given, "main.cpp", "-o", "main"]
        subprocess.run(build, cwd=folder, check=True)
        subprocess.run(["./main"], cwd=folder, check=True, env=os.environ)
        for i, tensor in enumerate(tensors):
            found = np.fromfile(f"{folder}/{i}", dtype=np.float32)
            tensor.copy_(torch.from_numpy(found).view(tensor.shape))


def check(mode, size, versions, spread, needs):
    """Errors of value and gradients against float64."""
    n, channels, height, width = size
    images = torch.rand(size)
    maps = affine_exp(spread * torch.randn(n, versions, 6).double())[..., :2, :]
    maps[0, 0] = torch.tensor([[3.1, 0.0, 3.0], [0.0, 3.1, 3.0]])  # seen by one corner only
    maps = maps.float().flatten(2).contiguous()
    weight = torch.randn(n, versions, channels, height, width)
    made = warp_cuda.Plan(images, maps, mode, height, width)
    out = torch.full_like(weight, torch.nan)
    warp_cuda.forward(made, images, maps, out)
    found = (out, *warp_cuda.backward(made, images, maps, weight, needs))
    slow = [x.double().requires_grad_() for x in (images, maps)]
    value = _grid_warp(slow[0], slow[1].unflatten(-1, (2, 3)), mode, "constant")
    exact = (value.detach(), *torch.autograd.grad(value, slow, weight.double()))
    pairs = [(a, b) for a, b in zip(found, exact, strict=True) if a is not None]
    return [((a.double() - b).norm() / b.norm()).item() for a, b in pairs]


CASES = (
    ("bilinear", (2, 1, 28, 28), 1, 0.3, (True, True)),
    ("bilinear", (2, 2, 17, 40), 2, 0.5, (True, True)),
    ("bilinear", (1, 1, 64, 64), 2, 0.5, (True, True)),
    ("bilinear", (2, 2, 9, 5), 3, 0.5, (False, True)),
    ("bicubic", (2, 1, 12, 9), 2, 0.5, (True, True)),
    ("bspline", (2, 1, 12, 9), 2, 0.5, (True, True)),
    ("bspline", (2, 2, 9, 5), 1, 0.5, (True, False)),
    ("bicubic", (1, 1, 28, 28), 2, 0.5, (True, True)),
    ("bspline", (1, 1, 36, 40), 1, 0.5, (True, True)),
)

if __name__ == "__main__":
    torch.manual_seed(0)
    warp_cuda.Plan.launch = emulate
    for case in CASES:
        errors = check(*case)
        print(*case, " ".join(f"{error:.1e}" for error in errors), flush=True)  # noqa: T201
        if not max(errors) < 2e-5:
            raise SystemExit("too far off")
