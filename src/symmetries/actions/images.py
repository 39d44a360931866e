"""Action of groups on images; a composition is resampled once."""

from typing import Any

import torch
from torch import Tensor

from symmetries._validation.checks import check_choice, check_images, check_number, invalid
from symmetries._validation.placement import check_together
from symmetries.actions.base import Action
from symmetries.actions.colours import ColourAction
from symmetries.actions.permute import permute, permutes_pixels
from symmetries.groups.affine import Affine2
from symmetries.groups.base import Group
from symmetries.groups.colour import Colour
from symmetries.groups.finite import Cyclic, CyclicShift, Dihedral, FiniteGroup, Flip
from symmetries.groups.matrix import MatrixGroup
from symmetries.groups.names import named_group
from symmetries.groups.product import Product
from symmetries.groups.se2 import SE2
from symmetries.ops.affine_inverse import affine_inverse
from symmetries.ops.warp import INTERPOLATIONS, PADDINGS, Interpolation, Padding, warp, warp_shared

KNOWN = (Affine2, SE2, Colour, CyclicShift, Cyclic, Flip, Dihedral)


class ImageAction(Action):
    """Action of a group on images (N, C, H, W).

    An element with matrix T moves the point p to T p, so the moved image at p is the image at
    T^-1 p. This takes one resampling, whatever T was composed of. A positive rotation turns the
    picture counter-clockwise, a positive shift_x moves it right, a positive shift_y moves it up,
    and a positive scale enlarges it. Rotations of square images by multiples of 90 degrees, flips
    and cyclic shifts are exact permutations of the pixels.

    The factors of a product act one after the other, so its laws hold for images if the factors
    commute, as colours and motions do; :meth:`undo` is correct for all products. Colours act
    first, or last if ``fill`` is not 0, because they change the background.

    Args:
        group: Affine2, SE2, a finite group, a learned group of the plane, Colour, or a product.
        interpolation: "bilinear", "bicubic" (Keys) or "bspline" (interpolating cubic B-spline).
        padding: "constant", "border" or "reflect".
        fill: background value if padding is "constant".

    Example:
        >>> from symmetries.groups.affine import Affine2
        >>> group = Affine2("rotation")
        >>> act = ImageAction(group)
        >>> image = torch.zeros(1, 1, 4, 4)
        >>> image[0, 0, 1, 3] = 1.0  # on the right
        >>> turned = act(group.exp(torch.tensor([torch.pi / 2])), image)
        >>> turned[0, 0].argmax().item()  # row 0, column 1: at the top
        1
    """

    def __init__(
        self,
        group: str | Group[Any],
        *,
        interpolation: Interpolation = "bilinear",
        padding: Padding = "constant",
        fill: float = 0.0,
    ) -> None:
        check_choice(interpolation, INTERPOLATIONS, "interpolation")
        check_choice(padding, PADDINGS, "padding")
        check_number(fill, "fill")
        group = named_group(group)
        self.group: Group[Any] = group
        self.interpolation = interpolation
        self.padding = padding
        self.fill = fill
        self._factors: tuple[ImageAction, ...] = ()
        self._order: tuple[int, ...] = ()
        if isinstance(group, Product):
            # Colours act last if they change the background value that fills the frame.
            last = padding == "constant" and fill != 0
            factors = sorted(group.factors, key=lambda one: isinstance(one, Colour) == last)
            options = self._options()
            self._factors = tuple(ImageAction(factor, **options) for factor in factors)
            self._order = tuple(group.factors.index(factor) for factor in factors)
        elif not isinstance(group, KNOWN) and not (
            isinstance(group, MatrixGroup) and group.planar  # a learned one
        ):
            remedy = 'choose "rotation", "translation" (shifts), "affine", "c4", "d4" or "colour"'
            raise invalid("group", "a group that acts on images", repr(group), remedy)

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self._options().items())
        return f"ImageAction({self.group!r}, {options})"

    def __call__(self, element: Any, data: Tensor) -> Tensor:  # noqa: ANN401 - elements differ by group
        """Return images (N, C, H, W) moved by one shared element, or by one element per image."""
        check_images(data)
        if isinstance(self.group, Product):
            for factor, part in self.in_turn(element):
                data = factor(part, data)
            return data
        lead = self._lead(element)
        if len(lead) > 1 or (lead and lead[0] != len(data)):
            expected = f"one element, or one for each of {len(data)} images"
            remedy = "for several versions of each image use act.orbit(element, images)"
            raise invalid("element", expected, f"leading shape {tuple(lead)}", remedy)
        if isinstance(self.group, Colour):
            return ColourAction(self.group)(element, data)
        if isinstance(self.group, FiniteGroup) and permutes_pixels(self.group, *data.shape[-2:]):
            return permute(self.group, element, data)
        return warp(data, self._theta(element, data), **self._options())

    def in_turn(self, element: Any) -> list[tuple["ImageAction", Any]]:  # noqa: ANN401
        """Return the actions of a product's factors with their elements, in the order they act."""
        order = zip(self._order, self._factors, strict=True)
        return [(factor, element[index]) for index, factor in order]

    def orbit(self, element: Any, data: Tensor, *, inverse: bool = False) -> Tensor:  # noqa: ANN401
        """Return several transformed versions of each image.

        Args:
            element: S elements shared by all images, with leading shape (S,), or S for each
                image, with leading shape (N, S).
            data: (N, C, H, W).
            inverse: if True, the inverses of these elements act. Resampling needs inverse
                matrices, so this avoids computing them twice.

        Returns:
            (N, S, C, H, W).

        Example:
            >>> from symmetries.groups.finite import Cyclic
            >>> act = ImageAction(Cyclic(4))
            >>> act.orbit(act.group.elements(), torch.rand(2, 1, 8, 8)).shape
            torch.Size([2, 4, 1, 8, 8])
        """
        check_images(data)
        lead = self._lead(element)
        if len(lead) not in (1, 2) or (len(lead) == 2 and lead[0] != len(data)):
            expected = f"leading shape (S,) or ({len(data)}, S)"
            remedy = "one version of each image: act(element, images)"
            raise invalid("element", expected, f"leading shape {tuple(lead)}", remedy)
        if inverse and isinstance(self.group, Affine2 | SE2 | MatrixGroup):
            check_together(images=data, element=element)
            theta = element[..., :2, :]
            return (warp_shared if len(lead) == 1 else warp)(data, theta, **self._options())
        element = self.group.inverse(element) if inverse else element
        if isinstance(self.group, Product | Colour):
            return self._expanded_orbit(element, data, lead)
        if isinstance(self.group, FiniteGroup) and permutes_pixels(self.group, *data.shape[-2:]):
            return permute(self.group, element.expand(len(data), lead[-1]), data)
        theta = self._theta(element, data)
        return (warp_shared if len(lead) == 1 else warp)(data, theta, **self._options())

    def undo(self, element: Any, data: Tensor) -> Tensor:  # noqa: ANN401
        """Return images (N, C, H, W) moved by the inverse of each factor, the last to act first.

        If the factors do not commute this undoes them, which the inverse element does not.

        Example:
            >>> from symmetries.groups.finite import Cyclic, CyclicShift
            >>> act = ImageAction(Product(Cyclic(4), CyclicShift("x", 4)))
            >>> x, element = torch.rand(1, 1, 8, 8), (torch.tensor(1), torch.tensor(1))
            >>> act.undo(element, act(element, x)).equal(x)
            True
        """
        if not isinstance(self.group, Product):
            return self(self.group.inverse(element), data)
        for factor, part in reversed(self.in_turn(element)):
            data = factor.undo(part, data)
        return data

    def _options(self) -> dict[str, Any]:
        return {"interpolation": self.interpolation, "padding": self.padding, "fill": self.fill}

    def _lead(self, element: Any) -> torch.Size:  # noqa: ANN401 - elements differ by group
        """Return the leading shape of an element, without the group's own dimensions."""
        if isinstance(self.group, Product):
            part = ImageAction(self.group.factors[0])
            return part._lead(element[0])
        own = (
            0 if isinstance(self.group, FiniteGroup) else 1 if isinstance(self.group, Colour) else 2
        )
        if not isinstance(element, Tensor) or element.ndim < own:
            kind = tuple(element.shape) if isinstance(element, Tensor) else type(element).__name__
            raise invalid("element", f"an element of {self.group!r}", kind, "use group.exp(eta)")
        if own == 2 and (element.shape[-2:] != (3, 3) or not element.is_floating_point()):
            got = f"shape {tuple(element.shape)}, {element.dtype}"
            expected = "floating-point matrices (..., 3, 3)"
            raise invalid("element", expected, got, "use group.exp(eta)")
        return element.shape[: element.ndim - own]

    def _theta(self, element: Tensor, data: Tensor) -> Tensor:
        if isinstance(self.group, Cyclic | Flip | Dihedral):
            element = self.group.matrix(element, data.dtype)
        check_together(images=data, element=element)
        return affine_inverse(element)[..., :2, :]

    def _expanded_orbit(self, element: Any, data: Tensor, lead: torch.Size) -> Tensor:  # noqa: ANN401
        n, s = len(data), lead[-1]
        copies = data[:, None].expand(n, s, *data.shape[1:]).flatten(0, 1)

        def flat(part: Any) -> Any:  # noqa: ANN401 - elements differ by group
            if isinstance(part, tuple):
                return tuple(flat(p) for p in part)
            own = part.shape[len(lead) :]
            return part.expand(n, s, *own).flatten(0, 1)

        return self(flat(element), copies).reshape(n, s, *data.shape[1:])
