"""Work on many examples in parts of a fixed size, so that results do not depend on the memory."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor

from symmetries.auditing.examine import joined

Part = Callable[[int, int], dict[str, Tensor]]
Over = Callable[[Part, int], dict[str, Tensor]]


BLOCK = 2**26  # bytes that are copied to a GPU at once


def to_device(x: Tensor, device: torch.device) -> Tensor:
    """The data on a device; several threads copy much of it to a GPU, by way of pinned memory.

    Args:
        x: (N, ...).
        device: where it should be.
    """
    if device.type != "cuda" or x.is_cuda or x.nbytes <= BLOCK:
        return x.to(device)
    found = torch.empty(x.shape, dtype=x.dtype, device=device)
    rows = max(1, BLOCK * len(x) // x.nbytes)

    def copy(part: tuple[Tensor, Tensor]) -> None:
        with torch.cuda.stream(torch.cuda.Stream(device)):
            part[0].copy_(part[1].pin_memory(), non_blocking=True)
            torch.cuda.current_stream(device).synchronize()

    torch.cuda.current_stream(device).synchronize()  # the memory is free to be written
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(copy, zip(found.split(rows), x.split(rows), strict=True)))
    return found


def in_parts(size: int, advance: Callable[[str], None]) -> Over:
    """How to go through N examples: ``over(part, N)`` with ``part(start, stop)``.

    Args:
        size: examples of a part.
        advance: called after each part.

    Example:
        >>> import torch
        >>> over = in_parts(2, lambda done: None)
        >>> over(lambda start, stop: {"x": torch.arange(start, stop)}, 5)["x"].tolist()
        [0, 1, 2, 3, 4]
    """

    def over(part: Part, count: int) -> dict[str, Tensor]:
        found = []
        for start in range(0, count, size):
            found.append(part(start, min(start + size, count)))
            advance("")
        return joined(found)

    return over
