"""TrivialAugmentWide (Müller and Hutter, 2021) for whole batches, as in torchvision.

torchvision applies one operation to all pictures of a call, so that a draw for each picture takes a
tenth of a millisecond; here batches are moved at once on any device. The operations, their ranges
and 31 strengths, the nearest pixel and the black background are those of torchvision 0.26;
``python -m benchmarks.prescribe.trivial`` compares every operation with it, where it is installed.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from symmetries.analysis.light_moves import KINDS, relit
from symmetries.analysis.network_trials import Change

OPERATIONS = ("identity", "shear_x", "shear_y", "shift_x", "shift_y", "turn", *KINDS)
STRENGTHS = 31


def drawn(count: int, generator: torch.Generator) -> Tensor:
    """Which operation, its strength from 0 to 1 and its sign (count, 3), by a generator."""
    which = torch.randint(len(OPERATIONS), (count,), generator=generator)
    strength = torch.randint(STRENGTHS, (count,), generator=generator) / (STRENGTHS - 1)
    sign = 2.0 * torch.randint(2, (count,), generator=generator) - 1
    return torch.stack((which, strength, sign), 1)


def moved(x: Tensor, parameters: Tensor) -> Tensor:
    """New versions of pictures (N, C, H, W) with values from 0 to 1, by parameters (N, 3)."""
    return apply(x, *parameters.to(x).unbind(1))


TRIVIAL = Change(drawn, moved)


def apply(x: Tensor, which: Tensor, strength: Tensor, sign: Tensor) -> Tensor:
    """One operation for each picture: its place, its strength from 0 to 1, and 1 or -1."""
    signed = strength * sign
    kind = which - len(OPERATIONS) + len(KINDS)
    amount = torch.where(which >= OPERATIONS.index("posterize"), strength, 0.99 * signed)
    moving = ((which > 0) & (kind < 0))[:, None, None, None]
    return relit(torch.where(moving, _moved(x, which, signed), x), kind, amount)


def _moved(x: Tensor, which: Tensor, signed: Tensor) -> Tensor:
    """Pictures moved by shears about a corner, whole pixels, or turns about the middle."""
    height, width = x.shape[-2:]
    size = x.new_tensor([width, height])

    def own(name: str, most: float) -> Tensor:
        return torch.where(which == OPERATIONS.index(name), most * signed, 0.0)

    shear_x, shear_y = own("shear_x", 0.99), own("shear_y", 0.99)
    shift = torch.stack((own("shift_x", 32.0), own("shift_y", 32.0)), -1).trunc()
    turn = torch.deg2rad(own("turn", 135.0))
    one = torch.ones_like(turn)
    # From places of the new picture, in pixels from its middle, to places of the old one.
    shears = torch.stack((one, shear_x, shear_y, one), -1).view(-1, 2, 2)
    turns = torch.stack((turn.cos(), -turn.sin(), turn.sin(), turn.cos()), -1).view(-1, 2, 2)
    rows = torch.arange(height, device=x.device) + 0.5 - height / 2
    columns = torch.arange(width, device=x.device) + 0.5 - width / 2
    points = torch.stack(torch.meshgrid(columns, rows, indexing="xy"), -1).view(1, -1, 2)
    corner = size / 2
    points = ((points + corner) @ shears.mT - corner) @ turns.mT - shift[:, None]
    grid = (2 * points / size).view(-1, height, width, 2)
    return F.grid_sample(x, grid, mode="nearest", align_corners=False)


def compare() -> None:
    """Print how far each operation is from torchvision's, in steps of 256."""
    from torchvision.transforms import v2

    space = v2.TrivialAugmentWide._AUGMENTATION_SPACE
    transform = v2.TrivialAugmentWide()
    order = [*OPERATIONS[:7], "saturation", "contrast", *OPERATIONS[9:]]
    names = dict(zip(order, space, strict=True))
    generator = torch.Generator().manual_seed(0)
    for side, channels in ((28, 1), (32, 3)):
        x = torch.randint(256, (4, channels, side, side), generator=generator) / 255
        for place, name in enumerate(OPERATIONS):
            make, signs = space[names[name]]
            strengths = make(STRENGTHS, side, side)
            far = []
            for step in range(0, STRENGTHS, 6):
                for sign in (1.0, -1.0) if signs else (1.0,):
                    size = 0.0 if strengths is None else sign * float(strengths[step])
                    theirs = transform._apply_image_or_video_transform(
                        (255 * x).round().byte(), names[name], size, transform.interpolation, {}
                    )
                    ours = apply(
                        x,
                        torch.full((4,), place),
                        torch.full((4,), step / (STRENGTHS - 1)),
                        torch.full((4,), sign),
                    )
                    far.append((255 * ours - theirs.float()).abs().flatten())
            steps = torch.cat(far)
            print(f"{side} {name}: {float((steps > 2).float().mean()):.4f} apart by more than 2")


if __name__ == "__main__":
    compare()
