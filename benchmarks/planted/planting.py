"""Plant transformations into originals, by one resampling, and keep what was planted.

A pixel of the frame is the mean of k x k points, each read from the original at T^-1 of the point,
so that the pixel grid is that of the frame and tells nothing of T. T is flip, then rotation, then
zoom, scales and shear, then shift (shifts are those of the content); hue is turned afterwards.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from benchmarks.planted.contents import Content
from benchmarks.planted.development_contents import content_named
from benchmarks.planted.originals import Folder, Originals
from benchmarks.planted.truth import FINITE
from torch import Tensor
from torch.nn.functional import grid_sample, interpolate

from symmetries.actions.colours import ColourAction
from symmetries.groups import Affine2
from symmetries.groups.colour import Colour

POINTS_AT_ONCE = 2**22
WINDOW = 0.95  # radius of the round window, in half-images
TAIL = 1.6449  # standard deviations to either side that hold 90 % of a normal law


@dataclass(frozen=True)
class Planted:
    """Pictures with a known truth.

    Args:
        images: (N, C, S, S) in [0, 1].
        labels: (N,) or None.
        planted: by parameter, (N,) in the library's own units; for flips 1 where mirrored.
        natural: the same for what the content varies by itself, where the generator drew it.
    """

    images: Tensor
    labels: Tensor | None
    planted: dict[str, Tensor]
    natural: dict[str, Tensor]


def seeded(*words: object) -> torch.Generator:
    """A generator whose seed is a hash of the words."""
    digest = hashlib.sha256("/".join(map(str, words)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def plant(
    content: str,
    size: int,
    count: int,
    transformation: Mapping[str, float],
    seed: int | str,
    folder: Folder = None,
    law: str = "uniform",
    device: str = "cpu",
) -> Planted:
    """Pictures of a content with transformations planted into them.

    Args:
        content: its name.
        size: pixels per side.
        count: how many.
        transformation: half-widths of uniforms by parameter, in the library's own units; for flips
            the share of mirrored pictures.
        seed: of everything that is drawn: a number, or any text.
        folder: data files of named sets.
        law: of the continuous parameters, see :func:`draw_planted`.
        device: where they are sampled; the numbers that are drawn do not depend on it.

    Example:
        >>> found = plant("letters", 16, 4, {"rotation": 0.5}, seed=0)
        >>> found.images.shape, bool((found.planted["rotation"].abs() <= 0.5).all())
        (torch.Size([4, 1, 16, 16]), True)
    """
    kind = content_named(content)
    source = kind.make(count, size, seeded("originals", content, seed), folder)
    planted = draw_planted(transformation, count, seeded("planted", content, seed), law)
    natural = draw_natural(kind, count, seeded("natural", content, seed))
    total = dict(planted)
    for name, values in natural.items():
        total[name] = total[name] + values if name in total else values
    images = torch.empty(count, kind.channels, size, size)
    chunk = max(1, POINTS_AT_ONCE // (size * kind.supersample) ** 2)
    for start in range(0, count, chunk):
        at = torch.arange(start, min(count, start + chunk))
        values = {n: v[at] for n, v in total.items()}
        images[at] = moved_pictures(source, at, kind, size, values, device).cpu()
    if kind.finish is not None:
        images = kind.finish(images, seeded("finish", content, seed))
    return Planted(images, source.labels, planted, natural)


def draw_planted(
    transformation: Mapping[str, float],
    count: int,
    generator: torch.Generator,
    law: str = "uniform",
) -> dict[str, Tensor]:
    """One value for each picture and parameter; for flips 0 and 1.

    Args:
        transformation: for each parameter h, or the share of mirrored pictures.
        count: of pictures.
        generator: source of randomness.
        law: "uniform" within h to either side; "normal", with 90 % within h; "one-sided", uniform
            from 0 to h; or "two modes", each uniform within h / 4 of h and of -h.
    """
    drawn = {}
    for name, half in sorted(transformation.items()):
        unit = torch.rand(count, generator=generator)
        if name in FINITE:
            drawn[name] = (unit < half).float()
        elif law == "normal":
            drawn[name] = half / TAIL * torch.randn(count, generator=generator)
        elif law == "one-sided":
            drawn[name] = half * unit
        elif law == "two modes":
            side = 2.0 * torch.randint(2, (count,), generator=generator) - 1
            drawn[name] = half * (side + (2 * unit - 1) / 4)
        else:
            drawn[name] = half * (2 * unit - 1)
    return drawn


def draw_natural(content: Content, count: int, generator: torch.Generator) -> dict[str, Tensor]:
    """What known natural variation adds; sizes are one zoom, whichever scales are asked for."""
    zoom = content.natural.get("zoom")
    if zoom is None or not zoom.known or zoom.half == 0:
        return {}
    return {"zoom": zoom.half * (2 * torch.rand(count, generator=generator) - 1)}


def matrices(values: Mapping[str, Tensor], count: int) -> Tensor:
    """T = shift * (scales, shear) * zoom * rotation * flip, (N, 3, 3)."""

    def part(*names: str) -> Tensor:
        eta = torch.stack([values.get(name, torch.zeros(count)) for name in names], -1)
        return Affine2(*names).exp(eta.double())

    flip = torch.eye(3, dtype=torch.float64).repeat(count, 1, 1)
    for axis, name in enumerate(FINITE):
        if name in values:
            flip[:, axis, axis] = 1 - 2 * values[name].double()
    stretch = part("scale_x", "scale_y", "shear") @ part("zoom")
    return part("shift_x", "shift_y") @ stretch @ part("rotation") @ flip


def moved_pictures(
    source: Originals,
    at: Tensor,
    content: Content,
    size: int,
    values: Mapping[str, Tensor],
    device: str = "cpu",
) -> Tensor:
    """Some originals, moved and sampled on the frame, (n, C, size, size)."""
    originals = source.pictures(at).to(device)
    if content.magnify > 1:
        scale = content.magnify
        originals = interpolate(originals, scale_factor=scale, mode="bicubic").clamp(0, 1)
    fine = size * content.supersample
    axis = ((torch.arange(fine) + 0.5) * 2 / fine - 1).double()
    y, x = torch.meshgrid(-axis, axis, indexing="ij")
    points = torch.stack((x, y, torch.ones_like(x)), -1).to(device)  # (fine, fine, 3)
    back = torch.linalg.inv(matrices(values, len(at)))[:, :2].to(device)
    places = torch.einsum("nij,hwj->nhwi", back, points) / source.span
    if source.centres is not None:
        places = places + source.centres[at].to(device).double()[:, None, None]
    grid = (places * places.new_tensor([1.0, -1.0])).float()
    sampled = grid_sample(originals, grid, align_corners=False)
    k = content.supersample
    pictures = sampled.unflatten(3, (size, k)).unflatten(2, (size, k)).mean((3, 5))
    if "hue" in values:
        group = Colour("hue")
        act = ColourAction(group)
        pictures = act(group.exp(values["hue"][:, None]).to(device), pictures.clamp(0, 1))
    if content.round:
        pictures = pictures * round_window(size).to(device)
    return pictures.clamp(0, 1)


def round_window(size: int) -> Tensor:
    """A disc (size, size) with an edge that falls from 1 to 0 over a pixel."""
    axis = (torch.arange(size) + 0.5) * 2 / size - 1
    radius = torch.hypot(axis[:, None], axis[None, :])
    return ((WINDOW - radius) * size / 2 + 0.5).clamp(0, 1)
