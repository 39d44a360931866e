"""Action of the signal group on 1-D signals; a composition is resampled once."""

import torch
from torch import Tensor

from symmetries._validation.checks import check_choice, check_number, invalid
from symmetries._validation.placement import check_together
from symmetries.actions.base import Action
from symmetries.actions.resample import INTERPOLATIONS, PADDINGS, Interpolation, Padding, warp
from symmetries.groups.names import named_group
from symmetries.groups.signal import Signal


class SignalAction(Action):
    """Action on the time and the values of signals (N, C, L): y(t) = gamma x((t - b) / f) + o.

    Time runs from -1 to 1 over the whole length, and samples lie in the middle of their intervals.
    Padding is part of the signal: it is scaled and offset with the rest. With an offset the law
    of an action requires "border" or "reflect", because a constant outside does not move.

    Args:
        group: ``Signal`` with all parameters (the default) or some of them.
        interpolation: "bilinear" (linear in time), "bicubic" (Keys) or "bspline".
        padding: "constant", "border" or "reflect".
        fill: padding value if padding is "constant".

    Example:
        >>> act = SignalAction(Signal("shift", "sign"))
        >>> x = torch.tensor([[[1.0, 2.0, 3.0, 4.0]]])
        >>> later = act.group.exp(torch.tensor([0.5, 0.0]))  # a quarter of the length
        >>> act(later, x).flatten().tolist()
        [0.0, 1.0, 2.0, 3.0]
    """

    def __init__(
        self,
        group: str | Signal | None = None,
        *,
        interpolation: Interpolation = "bilinear",
        padding: Padding = "constant",
        fill: float = 0.0,
    ) -> None:
        check_choice(interpolation, INTERPOLATIONS, "interpolation")
        check_choice(padding, PADDINGS, "padding")
        check_number(fill, "fill")
        self.group = Signal() if group is None else named_group(group)
        self.interpolation: Interpolation = interpolation
        self.padding: Padding = padding
        self.fill = fill

    def __call__(self, element: Tensor, data: Tensor) -> Tensor:
        """Return the signals moved by one shared element, or by one element per signal.

        Args:
            element: (4,), shared by all signals, or (N, 4).
            data: (N, C, L).
        """
        check_together(signals=data, element=element)
        if data.ndim != 3 or not data.is_floating_point() or 0 in data.shape[1:]:
            got = f"shape {tuple(data.shape)}, {data.dtype}"
            remedy = "add a channel axis: signals[:, None]" if data.ndim == 2 else "reshape it"
            raise invalid("signals", "floating-point (N, C, L)", got, remedy)
        if element.shape not in ((4,), (len(data), 4)):
            shape = f"shape {tuple(element.shape)}"
            remedy = "give one element, or one for each signal"
            raise invalid("element", f"shape (4,) or ({len(data)}, 4)", shape, remedy)
        f, b, gamma, o = element.to(data.dtype).unbind(-1)
        # A signal is resampled as an image with one row, whose height is unchanged.
        zero, one = torch.zeros_like(f), torch.ones_like(f)
        back = torch.stack((1 / f, zero, -b / f, zero, one, zero), -1).reshape(*f.shape, 2, 3)
        moved = warp(
            data[:, :, None],
            back,
            interpolation=self.interpolation,
            padding=self.padding,
            fill=self.fill,
        )
        return gamma[..., None, None] * moved[:, :, 0] + o[..., None, None]
