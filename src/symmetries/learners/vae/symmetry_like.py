"""The interface of a symmetry model that a VAE of prototypes needs."""

from typing import Any, Protocol

from torch import Tensor, nn

from symmetries._validation.checks import wrong_type
from symmetries.actions.images import ImageAction
from symmetries.groups.base import Group


class SymmetryLike(Protocol):
    """Interface of a symmetry model, such as ``learners.symmetry_model.SymmetryModel``.

    ``generative`` maps prototypes to contexts, and its ``distribution`` has ``log_prob(eta,
    context)``, ``sample(context, n, generator)`` and ``around``, the places of angles that it goes
    around with; a finite group's has ``log_probs(context)``.
    """

    group: Group[Any]
    shape: tuple[int, int, int]
    bounds: tuple[float, ...]
    act: ImageAction
    generative: Any

    def infer(self, x: Tensor, refine: int = 0) -> Tensor:
        """Return parameters eta (N, dim) of images."""

    def element(self, x: Tensor, refine: int = 0) -> Any:  # noqa: ANN401 - elements differ by group
        """Return the group elements of images."""

    def prototype(self, x: Tensor, refine: int = 0) -> Tensor:
        """Return prototypes (N, C, H, W) of images."""


def as_module(symmetry: SymmetryLike) -> nn.Module:
    """Return the symmetry model as a module; raise an error if it is not one."""
    if not isinstance(symmetry, nn.Module) or not hasattr(symmetry, "prototype"):
        remedy = "fit a symmetries.learners.symmetry_model.SymmetryModel first"
        raise wrong_type("symmetry", "a symmetry model", symmetry, remedy)
    return symmetry
