"""Letters from fonts that matplotlib ships, normalised so that their natural variation is known.

Every glyph is drawn large, moved to the centre of mass of its ink, and given the second moments
that its character has on average over the fonts, by a symmetric matrix (which turns nothing). So
fonts differ in how a character looks, and not in its place, size, proportions or slant: what varies
by itself is what the benchmark draws.

No character looks like another one (or itself) when it is turned or mirrored.
"""

from functools import lru_cache
from pathlib import Path

import matplotlib
import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from scipy.linalg import sqrtm
from torch import Tensor
from torch.nn.functional import grid_sample

CHARACTERS = "FGJPRagk47"
FONTS = (
    "DejaVuSans",
    "DejaVuSans-Bold",
    "DejaVuSerif",
    "DejaVuSerif-Bold",
    "DejaVuSansMono",
    "STIXGeneral",
    "STIXGeneralBol",
    "cmr10",
    "cmss10",
    "cmb10",
)
CANVAS = 256  # pixels of a normalised glyph
DRAWN = 512  # pixels that it is drawn on before
POINTS = 300  # size of the font there
FARTHEST = 0.62  # ink reaches no further from the centre, in half-images of the frame
SPAN = 0.7  # of the frame's half-image that half a canvas covers


@lru_cache(maxsize=2)
def glyphs(characters: str = CHARACTERS, fonts: tuple[str, ...] = FONTS) -> tuple[Tensor, Tensor]:
    """All glyphs (M, 1, CANVAS, CANVAS) in [0, 1], and the number of the character of each."""
    drawn = [[_draw(character, font) for font in fonts] for character in characters]
    moments = [[ink_moments(picture) for picture in row] for row in drawn]
    targets = [np.mean([_unit(second) for _, second in row], 0) for row in moments]
    maps = [
        [(mean, symmetric_map(second, target)) for mean, second in row]
        for row, target in zip(moments, targets, strict=True)
    ]
    farthest = max(
        _farthest(picture, mean, matrix)
        for pictures, row in zip(drawn, maps, strict=True)
        for picture, (mean, matrix) in zip(pictures, row, strict=True)
    )
    size = FARTHEST / SPAN / farthest
    canvases = [
        _normalised(picture, mean, size * matrix)
        for pictures, row in zip(drawn, maps, strict=True)
        for picture, (mean, matrix) in zip(pictures, row, strict=True)
    ]
    labels = torch.arange(len(characters)).repeat_interleave(len(fonts))
    return torch.stack(canvases), labels


def _draw(character: str, font: str) -> Tensor:
    """White ink on black, (DRAWN, DRAWN), somewhere near the middle."""
    path = Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{font}.ttf"
    picture = Image.new("L", (DRAWN, DRAWN))
    middle = (DRAWN / 2, DRAWN / 2)
    loaded = ImageFont.truetype(str(path), POINTS)
    ImageDraw.Draw(picture).text(middle, character, 255, loaded, anchor="mm")
    return torch.from_numpy(np.asarray(picture, dtype=np.float32) / 255)


def ink_moments(picture: Tensor) -> tuple[np.ndarray, np.ndarray]:
    """Centre of mass (x, y) and second moments (2, 2) of a picture (H, W), in half-images, y up."""
    height, width = picture.shape
    x = (torch.arange(width).double() + 0.5) * 2 / width - 1
    y = 1 - (torch.arange(height).double() + 0.5) * 2 / height
    weight = (picture / picture.sum()).double()
    columns, rows = weight.sum(0), weight.sum(1)
    mean = torch.stack(((columns * x).sum(), (rows * y).sum()))
    dx, dy = x - mean[0], y - mean[1]
    mixed = dy @ weight @ dx
    second = torch.stack(((columns * dx**2).sum(), mixed, mixed, (rows * dy**2).sum()))
    return mean.numpy(), second.reshape(2, 2).numpy()


def _unit(second: np.ndarray) -> np.ndarray:
    return second / np.trace(second)


def symmetric_map(second: np.ndarray, target: np.ndarray) -> np.ndarray:
    """The symmetric positive A with A C A = target: C^-1/2 (C^1/2 target C^1/2)^1/2 C^-1/2."""
    root = np.real(sqrtm(second))
    inverse = np.linalg.inv(root)
    return inverse @ np.real(sqrtm(root @ target @ root)) @ inverse


def _farthest(picture: Tensor, mean: np.ndarray, matrix: np.ndarray) -> float:
    """The largest distance of ink from its centre after the map."""
    rows, columns = torch.nonzero(picture > 0.1, as_tuple=True)
    side = len(picture)
    x = (columns + 0.5).double() * 2 / side - 1 - mean[0]
    y = 1 - (rows + 0.5).double() * 2 / side - mean[1]
    points = torch.from_numpy(matrix) @ torch.stack((x, y))
    return float(points.norm(dim=0).max())


def _normalised(picture: Tensor, mean: np.ndarray, matrix: np.ndarray) -> Tensor:
    """The picture with its ink at the centre and mapped by the matrix, (1, CANVAS, CANVAS)."""
    fine = 2 * CANVAS
    axis = ((torch.arange(fine) + 0.5) * 2 / fine - 1).double()
    y, x = torch.meshgrid(-axis, axis, indexing="ij")
    back = torch.from_numpy(np.linalg.inv(matrix))
    source_x = back[0, 0] * x + back[0, 1] * y + mean[0]
    source_y = back[1, 0] * x + back[1, 1] * y + mean[1]
    grid = torch.stack((source_x, -source_y), -1).float()[None]
    sampled = grid_sample(picture[None, None], grid, align_corners=False)
    return sampled.reshape(1, CANVAS, 2, CANVAS, 2).mean((2, 4))
