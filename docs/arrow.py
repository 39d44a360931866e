"""The arrow of the conventions page: drawn, moved, and found again.

``python docs/arrow.py`` draws ``docs/_static/conventions.png`` from the table of the page.
"""

import math
import re
from pathlib import Path

import torch
from torch import Tensor

from symmetries.actions.images import ImageAction
from symmetries.groups.affine import Affine2
from symmetries.groups.colour import Colour

HERE = Path(__file__).parent
TAIL, TIP = (-0.1, -0.3), (0.5, 0.2)
SIDE = 129


def axes(side: int) -> tuple[Tensor, Tensor]:
    """Coordinates of the pixel centres: x right, y up, each from -1 to 1 across the image."""
    axis = (2 * torch.arange(side, dtype=torch.float64) + 1 - side) / side
    return axis[None, :].expand(side, side), -axis[:, None].expand(side, side)


def arrow(side: int = SIDE) -> Tensor:
    """An arrow (1, 1, side, side) from TAIL to TIP, grey with a white tip."""
    x, y = axes(side)
    length = math.dist(TAIL, TIP)
    ux, uy = (TIP[0] - TAIL[0]) / length, (TIP[1] - TAIL[1]) / length
    along = (x - TAIL[0]) * ux + (y - TAIL[1]) * uy
    across = ((y - TAIL[1]) * ux - (x - TAIL[0]) * uy).abs()
    shaft = (along > 0) & (along < length - 0.15) & (across < 0.035)
    head = (along >= length - 0.2) & (along < length) & (across < 0.7 * (length - along))
    spot = (x - TIP[0]) ** 2 + (y - TIP[1]) ** 2 < 0.045**2
    return torch.where(spot, 1.0, torch.where(shaft | head, 0.5, 0.0)).double()[None, None]


def tip(image: Tensor) -> tuple[float, float]:
    """Where the white tip is: the centre of what is brighter than the grey of the arrow."""
    x, y = axes(image.shape[-1])
    weight = (image[0, 0] - 0.6).clamp_min(0)
    return ((weight * x).sum() / weight.sum()).item(), ((weight * y).sum() / weight.sum()).item()


def page_rows() -> list[tuple[str, float, tuple[float, float]]]:
    """(parameter, value, tip) of every row of the table on the conventions page."""
    text = (HERE / "conventions.md").read_text()
    pattern = r"^\| `(\w+)` \| ([-+.\d]+) .*\| \(([-+.\d]+), ([-+.\d]+)\) \|$"
    rows = re.findall(pattern, text, re.MULTILINE)
    return [(name, float(value), (float(x), float(y))) for name, value, x, y in rows]


def moved(name: str, value: float, image: Tensor | None = None) -> Tensor:
    """The arrow moved by one parameter."""
    group = Affine2(name)
    element = group.exp(torch.tensor([value], dtype=torch.float64))
    return ImageAction(group)(element, arrow() if image is None else image)


def draw(path: Path) -> None:
    """One panel a parameter: the arrow before (light), after (dark), and where the page says."""
    from matplotlib.figure import Figure

    rows = page_rows()
    figure = Figure(figsize=(9.2, 5.2), layout="constrained")
    panels = figure.subplots(2, 4).flatten()
    for panel, (name, value, (x, y)) in zip(panels, rows, strict=False):
        before = arrow()[0, 0].clamp_max(0.5) * 2
        after = moved(name, value)[0, 0].clamp_max(0.5) * 2
        picture = torch.stack([1 - 0.25 * before] * 3, -1)
        ink = torch.tensor([0.13, 0.34, 0.65], dtype=torch.float64)
        picture = picture * (1 - after[..., None]) + ink * after[..., None]
        panel.imshow(picture.numpy(), extent=(-1, 1, -1, 1), interpolation="antialiased")
        panel.plot([x], [y], "o", mfc="none", mec="#d1495b", ms=9, mew=1.8)
        panel.set_title(f"{name} = {value:+.4g}", fontsize=10)
        panel.axhline(0, color="0.8", lw=0.6, zorder=0.5)
        panel.axvline(0, color="0.8", lw=0.6)
        panel.set_xticks([-1, 0, 1])
        panel.set_yticks([-1, 0, 1])
        panel.tick_params(labelsize=7, length=2)
    hue = Colour("hue")
    steps = torch.linspace(0, 2 * math.pi, 13, dtype=torch.float64)[:-1, None]
    red = torch.zeros(12, 3, 1, 1, dtype=torch.float64)
    red[:, 0] = 1
    strip = ImageAction(hue)(hue.exp(steps), red)[:, :, 0, 0]
    panels[-1].imshow(strip[None].numpy(), extent=(0, 360, 0, 120))
    panels[-1].set_title("red, hue = 0 to 2 pi", fontsize=10)
    panels[-1].set_xticks([0, 120, 240, 360])
    panels[-1].set_yticks([])
    panels[-1].tick_params(labelsize=7, length=2)
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    draw(HERE / "_static" / "conventions.png")
