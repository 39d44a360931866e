"""What dropout leaves, for several layers at once: one kernel that writes zeros and ones.

Torch's dropout of ones is two kernels a layer, and writes each number twice.
"""

from collections.abc import Sequence

import torch
import triton
import triton.language as tl
from torch import Tensor

_BLOCK = 512
_DRAWS = 8  # 16 bits each, of the 128 that a counter gives
_ALIGN = 64
_ROUNDS = 7  # of Philox: the fewest that pass the usual tests of randomness


@triton.jit
def _kept(seed, out, n, LEVEL: tl.constexpr, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    words = tl.randint4x(tl.load(seed), i, ROUNDS)
    at = tl.program_id(0) * (8 * BLOCK) + tl.arange(0, BLOCK)
    for j in tl.static_range(4):
        low, high = words[j] & 0xFFFF, (words[j] >> 16) & 0xFFFF
        one = at + (2 * j) * BLOCK
        tl.store(out + one, (low >= LEVEL).to(tl.uint8), mask=one < n)
        two = one + BLOCK
        tl.store(out + two, (high >= LEVEL).to(tl.uint8), mask=two < n)


def draw_kept(seed: Tensor, shapes: Sequence[tuple[int, int]], p: float) -> list[Tensor]:
    """Matrices of ones (uint8), with zeros in the places of a share p (to 16 bits).

    Args:
        seed: one number, int64, on the device: the same numbers for the same seed.
        shapes: of the matrices.
        p: probability of zero.
    """
    sizes = [-(-rows * columns // _ALIGN) * _ALIGN for rows, columns in shapes]
    flat = torch.empty(sum(sizes), dtype=torch.uint8, device=seed.device)
    grid = (triton.cdiv(flat.numel(), _DRAWS * _BLOCK),)
    _kept[grid](seed, flat, flat.numel(), round(p * 2**16), _BLOCK, _ROUNDS, num_warps=4)
    parts = flat.split(sizes)
    return [part[: r * c].view(r, c) for part, (r, c) in zip(parts, shapes, strict=True)]
