"""Fast repeated launches of a Triton kernel with the same sizes.

Triton looks at every argument of every launch and asks the driver about every address, which for a
small kernel takes several times longer than the launch itself. Here that happens once; later
launches hand the compiled kernel to Triton's own launcher. Where that is not possible (tensors
whose addresses are no multiples of 16, another version of Triton, its interpreter) every launch
goes the usual way.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from symmetries.ops.kernel_network import Network, PositionNetwork

ALIGNED = 16  # bytes; Triton compiles for it
_FAILED: set[str] = set()  # why launches go the usual way


class Launch:
    """A kernel with its grid and its scalar arguments.

    Args:
        kernel: takes tensors, then whole numbers, then constants, in this order.
        grid: of two.
        numbers: the whole numbers.
        constants: by name, in the order of the kernel's arguments.
    """

    def __init__(
        self,
        kernel: Any,  # of Triton
        grid: tuple[int, int],
        numbers: tuple[int, ...],
        constants: Mapping[str, int | float | str],
    ) -> None:
        self.kernel = kernel
        self.grid = grid
        self.numbers = numbers
        self.constants = constants
        self.rest = (*numbers, *constants.values())
        self.compiled: Any = None
        self.head: tuple[Any, ...] = ()
        self.device = -1

    def __call__(self, *tensors: Tensor) -> None:
        """Launch on the current stream of the tensors' device."""
        if self.compiled is not None:
            addresses = [tensor.data_ptr() for tensor in tensors]
            if all(address % ALIGNED == 0 for address in addresses) and self.at(addresses):
                return
        first = tensors[0]
        with torch.cuda.device(first.device) if first.is_cuda else nullcontext():
            made = self.kernel[self.grid](*tensors, *self.numbers, **self.constants)
        known = all(hasattr(made, name) for name in ("run", "function", "packed_metadata"))
        aligned = all(tensor.data_ptr() % ALIGNED == 0 for tensor in tensors)
        if first.is_cuda and known and aligned and not _FAILED:
            self.compiled, self.device = made, first.device.index
            self.head = (made.function, made.packed_metadata, None, None, None)

    def at(self, addresses: Sequence[int]) -> bool:
        """Launch by the tensors' addresses, multiples of 16; False, and nothing, where it cannot.

        The first launch, and every one on another device, takes the tensors themselves.
        """
        if self.compiled is None or torch._C._cuda_getDevice() != self.device:
            return False
        stream = torch._C._cuda_getCurrentRawStream(self.device)
        try:
            self.compiled.run(*self.grid, 1, stream, *self.head, *addresses, *self.rest)
        except TypeError as error:  # another version of Triton has other arguments
            _FAILED.add(str(error))
            self.compiled = None
            return False
        return True


class Watched:
    """Tensors that kernels read repeatedly; their layout is checked again only after a move.

    Args:
        network: the tensors, None where there is none, and those that are learned.
    """

    def __init__(self, network: Network | PositionNetwork) -> None:
        self.parts = list(network.learned())
        self.counts = [part.numel() for part in self.parts]
        self.tensors = [network.gamma if t is None else t for t in network]
        self.device = network.gamma.device
        self.places: list[int] = []  # of the parts at the last look
        self.addresses: list[int] = []  # of all tensors
        self.aligned = False  # all of them

    def fit(self) -> bool:
        """Return whether the learned tensors are float32, contiguous and on the device."""
        places = []
        for part in self.parts:
            if part.dtype is not torch.float32 or not part.is_contiguous():
                return False
            places.append(part.data_ptr())
        if places != self.places:  # looked at once for as long as nothing moves
            if any(part.device != self.device for part in self.parts):
                return False
            self.addresses = [tensor.data_ptr() for tensor in self.tensors]
            self.aligned = all(address % ALIGNED == 0 for address in self.addresses)
            self.places = places
        return True

    def check_fit(self) -> None:
        """Raise where the parts no longer :meth:`fit`: between a forward and its backward pass."""
        if self.fit():
            return
        got = [
            f"{p.dtype} on {p.device}{'' if p.is_contiguous() else ' by strides'}"
            for p in self.parts
        ]
        raise RuntimeError(
            f"weights: expected contiguous torch.float32 on {self.device}, as in the forward pass, "
            f"got {', '.join(dict.fromkeys(got))}; change a layer's type or place before its "
            "forward pass, not before backward()"
        )

    def run(self, launch: Launch, *fresh: Tensor) -> None:
        """Launch a kernel on the tensors that :meth:`fit` accepted, followed by others."""
        places = [tensor.data_ptr() for tensor in fresh]
        for place in places:
            if place % ALIGNED:
                break
        else:
            if self.aligned and launch.at(self.addresses + places):
                return
        launch(*self.tensors, *fresh)

    def shaped(self, flat: Tensor) -> tuple[Tensor, ...]:
        """Split a flat buffer that kernels wrote into the parts that it holds."""
        return tuple(torch._C._nn.unflatten_dense_tensors(flat, self.parts))
