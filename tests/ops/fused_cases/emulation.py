"""The warps in CUDA C on a processor, a thread for each of theirs, under a sanitizer of g++.

Every access outside of what a block was given, or every race, ends the process.
"""

import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from torch import Tensor

from symmetries.ops.cuda import warp_cuda

SOURCE = Path(warp_cuda.__file__).with_name("warp.cu")
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


def emulate_warps(sanitizer: str) -> None:
    """Let warps of tensors on the processor take the kernels in CUDA C from now on."""
    warp_cuda.Plan.launch = _launch_with(sanitizer)
    warp_cuda.plan = _plan


def _plan(images: Tensor, theta: Tensor, mode: str, _oracle: object) -> warp_cuda.Plan | None:
    """A plan without a trial: it is the trial."""
    made = warp_cuda.Plan(images, theta, mode)
    return made if made.fits() else None


def _launch_with(sanitizer: str) -> Callable[..., None]:
    def launch(
        made: warp_cuda.Plan,
        name: str,
        *tensors: Tensor,
        to_images: bool = False,
        to_map: bool = False,
    ) -> None:
        """In the place of a launch: compile, run, and fetch what was written."""
        flags = {"TO_IMAGES": int(to_images), "TO_MAP": int(to_map)}
        flags["FOURS"] = int(made.by_fours(to_images, to_map))
        with tempfile.TemporaryDirectory() as folder:
            for i, tensor in enumerate(tensors):
                _memory(tensor).numpy().tofile(f"{folder}/{i}")
            main = MAIN.format(
                header=Path(__file__).with_name("emulation.h"),
                code=SOURCE.read_text().replace("extern __shared__ float memory[];", ""),
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
            build = ["g++", *options, f"-fsanitize={sanitizer}", *given, "main.cpp", "-o", "main"]
            subprocess.run(build, cwd=folder, check=True)
            subprocess.run(["./main"], cwd=folder, check=True)
            for i, tensor in enumerate(tensors):
                # By numpy, as a kernel writes: autograd does not see it.
                _memory(tensor).numpy()[:] = np.fromfile(f"{folder}/{i}", dtype=np.float32)

    return launch


def _memory(tensor: Tensor) -> Tensor:
    """All numbers from the first to the last of a tensor, those between its rows included."""
    tensor = tensor.detach()
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    length = 1 + sum((size - 1) * step for size, step in sizes)
    return tensor.as_strided((length,), (1,))
