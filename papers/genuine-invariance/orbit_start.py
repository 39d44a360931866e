"""Initial weights that make an untied network invariant: filters in whole orbits."""

import torch
from torch import Tensor, nn


def start_in_orbits(first: nn.Linear, second: nn.Linear, permutations: Tensor) -> None:
    """Set two layers so that filters come in whole orbits and are summed alike: invariant, untied.

    The first |G| units get one filter in all its poses, the next |G| another, ...; the second
    layer weighs the units of an orbit alike. Units left over get filters that are their own orbit
    mean. The network behind is then exactly invariant, with all weights free; a loss over whole
    orbits has gradients of the same symmetry, so training keeps it up to rounding, and a penalty
    on the invariance error keeps rounding from growing.

    Args:
        first: changed in place.
        second: changed in place.
        permutations: (|G|, D) of :func:`symmetries.nn.tied.pixel_permutations`.
    """
    order, units = len(permutations), first.weight.shape[0]
    whole = units - units % order
    with torch.no_grad():
        table = permutations.to(first.weight.device)
        leaders = first.weight[:whole:order]
        first.weight[:whole] = leaders[:, table].flatten(0, 1)
        first.weight[whole:] = first.weight[whole:][:, table].mean(1)
        if first.bias is not None:
            first.bias[:whole] = first.bias[:whole:order].repeat_interleave(order)
        second.weight[:, :whole] = second.weight[:, :whole:order].repeat_interleave(order, 1)
