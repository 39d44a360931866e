"""Pictures: new versions (8), modes (10), chains (11), factors (12), orbits (13, 14), marginals."""

from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure
from tasks import sprite_factors

from symmetries.data.rendering import SpriteFactors

BEYOND = 0.1  # of samples outside the bounds
COARSE = 72  # dots per inch of pictures made of many small ones
LIMITS = {"scale": (0.45, 1.05), "orientation": (0, 6.3), "x": (0, 1), "y": (0, 1)}
FACTORS = {"scale": "factor", "orientation": "radians", "x": "image widths", "y": "image heights"}
UNITS = {"shift": "half-images", "rotation": "radians", "scale": "log factor", "hue": "radians"}
UNITS |= {"saturation": "log factor", "value": "log factor"}


def draw(folder: Path) -> list[Path]:
    """Draw whatever the folder holds the numbers of."""
    written = []
    for file in sorted(folder.glob("*.npz")):
        arrays = {name: _wide(part) for name, part in np.load(file).items()}
        stem = folder / file.stem
        written += [
            _rows(arrays, Path(f"{stem}-resampled.png")),
            _orbits(arrays, Path(f"{stem}-orbits.png")),
            _chains(arrays, Path(f"{stem}-chains.png")),
            _marginals(arrays, Path(f"{stem}-marginals.png")),
            _joints(arrays, Path(f"{stem}-joints.png")),
        ]
        if "mode_images" in arrays:
            written.append(_modes(arrays, Path(f"{stem}-modes.png")))
        if "places_heart" in arrays:
            written.append(_places(arrays, Path(f"{stem}-places.png")))
    if any("places_heart" in np.load(file) for file in folder.glob("sprites-*.npz")):
        written.append(draw_factors(sprite_factors("train"), folder / "sprites-affine-factors.png"))
    return written


def _wide(part: np.ndarray) -> np.ndarray:
    """Half precision is for storage only."""
    return part.astype(np.float32) if part.dtype == np.float16 else part


def _modes(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """For each digit the image with the most and one with the fewest modes of the rotation."""
    figure, axes = plt.subplots(10, 6, figsize=(7, 8.5))
    for i in range(20):
        row = axes[i // 2, 3 * (i % 2) : 3 * (i % 2) + 3]
        for axis, part in zip(row, ("mode_images", "mode_prototypes"), strict=False):
            axis.imshow(_tiles(arrays[part][i][None, None]), cmap="gray", vmin=0, vmax=1)
        density = arrays["mode_density"][i]
        row[2].stairs(density, np.linspace(-180, 180, len(density) + 1), fill=True)
        number = int(arrays["mode_counts"][i])
        title = f"{number} mode{'s' if number > 1 else ''}"
        if "mode_widths" in arrays:
            title += f", {arrays['mode_widths'][i]:.0f} degrees"
        row[2].set_title(title, fontsize=7, pad=2)
        for axis in row:
            axis.set_xticks([])
            axis.set_yticks([])
        row[2].set_xticks([-180, 0, 180], ["-180", "0", "180"] if i >= 18 else [], fontsize=6)
        if i >= 18:
            row[2].set_xlabel("rotation, degrees", fontsize=7)
    return _save(figure, path)


def _places(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Sprites and where they are: of the test set, and new versions (Figure 17)."""
    names = ("square", "ellipse", "heart")
    figure, axes = plt.subplots(3, 4, figsize=(8, 5.4), width_ratios=(1.6, 1, 1.6, 1))
    for row, name in zip(axes, names, strict=True):
        for column, places in ((0, f"places_{name}"), (2, f"new_places_{name}")):
            shown = arrays[f"shown_{name}"][column // 2]
            shown = shown[: 2 * (len(shown) // 2)].reshape(2, -1, *shown.shape[1:])
            row[column].imshow(_tiles(shown), cmap="gray", vmin=0, vmax=1)
            row[column].axis("off")
            x, y = arrays[places].T
            row[column + 1].hist2d(x, y, bins=24, range=((0, 1), (0, 1)), cmap="Blues")
            row[column + 1].set_xticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=6)
            row[column + 1].set_yticks([0, 0.5, 1], ["0", "0.5", "1"], fontsize=6)
            row[column + 1].set_ylabel("y, image heights", fontsize=6)
    for axis in axes[-1, 1::2]:
        axis.set_xlabel("x, image widths", fontsize=6)
    for column, title in enumerate(("test", "places", "new", "new places")):
        axes[0, column].set_title(title, fontsize=9)
    return _save(figure, path)


def _tiles(images: np.ndarray) -> np.ndarray:
    """(R, K, C, H, W) as one picture, (R H, K W) or (R H, K W, 3)."""
    rows, columns, channels, height, width = images.shape
    picture = images.transpose(0, 3, 1, 4, 2).reshape(rows * height, columns * width, channels)
    return np.clip(picture[..., 0] if channels == 1 else picture[..., :3], 0, 1)


def _picture(images: np.ndarray, labels: list[str], path: Path) -> Path:
    rows, columns = images.shape[:2]
    figure, axis = plt.subplots(figsize=(0.6 * columns + 1, 0.6 * rows + 0.2))
    axis.imshow(_tiles(images), cmap="gray", vmin=0, vmax=1)
    height = images.shape[3]
    axis.set_yticks([(i + 0.5) * height for i in range(rows)], labels)
    axis.set_xticks([])
    return _save(figure, path, COARSE)


def _rows(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Test images, their prototypes, and new versions."""
    new = arrays["new"].swapaxes(0, 1)
    images = np.concatenate((arrays["examples"][None], arrays["prototypes"][None], new))
    return _picture(images, ["test", "prototype", *["new"] * len(new)], path)


def _orbits(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Versions that differ in one part (a column for each), prototypes, new (Figures 13, 14)."""
    names = [str(name) for name in arrays["parts"]]
    figure, axes = plt.subplots(1, len(names), figsize=(3.4 * len(names), 5.4), squeeze=False)
    for axis, name in zip(axes[0], names, strict=True):
        kinds = [arrays[f"{kind}_{name}"] for kind in ("orbit", "same", "again")]
        images = np.stack(kinds, 1)
        images = images.reshape(-1, *images.shape[2:])
        axis.imshow(_tiles(images), cmap="gray", vmin=0, vmax=1)
        height, shown = images.shape[3], len(images)
        labels = ["versions", "prototypes", "new"] * (shown // 3) if name == names[0] else []
        axis.set_yticks([(i + 0.5) * height for i in range(len(labels))], labels, fontsize=7)
        axis.set_xticks([])
        axis.set_title(f"{name} moves" if name != "all" else "everything moves", fontsize=9)
    return _save(figure, path, COARSE)


def _chains(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Iterated prototypes, and the size of the next eta over the first (Figure 11)."""
    images = np.concatenate((arrays["examples"][:, None], arrays["chain"]), 1)[:10]
    figure, (left, right) = plt.subplots(1, 2, figsize=(8.5, 5.4), width_ratios=(1, 1))
    left.imshow(_tiles(images), cmap="gray", vmin=0, vmax=1)
    left.set_xticks([])
    left.set_yticks([])
    left.set_title("test image, then one prototype after the other", fontsize=9)
    right.plot(100 * arrays["iterated"], marker="o")
    right.set_yscale("log")
    right.set_xlabel("inferences before")
    right.set_ylabel("size of eta, % of the first")
    right.axhline(5, color="gray", linestyle=":")
    right.text(4.9, 5.3, "the paper's plateau", fontsize=8, color="gray", ha="right")
    return _save(figure, path)


def draw_factors(factors: SpriteFactors, path: Path) -> Path:
    """Histograms of what was planted in the sprites, by shape (Figure 12)."""
    kinds = ("scale", "orientation", "x", "y")
    figure, axes = plt.subplots(3, len(kinds), figsize=(8, 4.4))
    for shape, row in zip(range(3), axes, strict=True):
        chosen = np.asarray(factors.shape) == shape
        for axis, kind in zip(row, kinds, strict=True):
            values = np.asarray(getattr(factors, kind))[chosen]
            axis.hist(values, 24, range=LIMITS[kind])
            axis.set_yticks([])
            axis.set_title(f"{('square', 'ellipse', 'heart')[shape]}: {kind}", fontsize=8)
            axis.tick_params(labelsize=7)
            if shape == 2:
                axis.set_xlabel(FACTORS[kind], fontsize=7)
    return _save(figure, path)


def _marginals(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """p(eta_i | x_hat) beside the image and its prototype.

    Densities end at the bounds; where much lies beyond, samples of fewer images are drawn instead.
    """
    names = [str(name) for name in arrays["names"]]
    density, edges, eta = arrays["density"], arrays["edges"], arrays["joint"]
    if (np.abs(eta) > edges[:, -1]).mean() > BEYOND:
        ends = [np.quantile(eta[..., j], (0.002, 0.998)) for j in range(len(names))]
        edges = np.stack([np.linspace(low, high, edges.shape[1]) for low, high in ends])
        counted = [[np.histogram(one[:, j], edges[j])[0] for j in range(len(names))] for one in eta]
        density = np.array(counted)
    count = min(12, len(density))
    columns = 2 + len(names)
    figure, axes = plt.subplots(count, columns, figsize=(1.3 * columns, 0.9 * count))
    for i in range(count):
        for column, part in enumerate(("examples", "prototypes")):
            axes[i, column].imshow(_tiles(arrays[part][i][None, None]), cmap="gray", vmin=0, vmax=1)
        for j, name in enumerate(names):
            axis = axes[i, 2 + j]
            axis.stairs(density[i, j], edges[j], fill=True)
            axis.set_xlim(edges[j, 0], edges[j, -1])
            axis.tick_params(labelsize=6, labelbottom=i == count - 1)
            if i == 0:
                axis.set_title(name.replace("_", " "), fontsize=8)
            if i == count - 1:
                axis.set_xlabel(UNITS.get(name.partition("_")[0], ""), fontsize=6)
        for axis in axes[i]:
            axis.set_yticks([])
        for axis in axes[i, :2]:
            axis.set_xticks([])
    return _save(figure, path)


def _joints(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Pairs of parameters under p(eta | x_hat) for one image (section 4.1: they depend)."""
    names = [str(name) for name in arrays["names"]]
    eta, n = arrays["joint"][0], len(names)
    figure, axes = plt.subplots(n, n, figsize=(1.3 * n, 1.3 * n), squeeze=False)
    for i in range(n):
        for j in range(n):
            axis = axes[i, j]
            if i == j:
                axis.hist(eta[:, i], 50)
            else:
                axis.plot(eta[:, j], eta[:, i], ",")
            axis.tick_params(labelsize=6, labelbottom=i == n - 1, labelleft=j == 0 and i > 0)
            if i == j:
                axis.set_yticks([])
            if i == n - 1:
                axis.set_xlabel(with_unit(names[j]), fontsize=7)
            if j == 0:
                axis.set_ylabel(with_unit(names[i]) if i else "", fontsize=7)
    return _save(figure, path)


def with_unit(name: str) -> str:
    """The name of a parameter as a label of an axis."""
    unit = UNITS.get(name.partition("_")[0], "")
    return f"{name.replace('_', ' ')},\n{unit}" if unit else name


def _save(figure: Figure, path: Path, dpi: int = 120) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=dpi, bbox_inches="tight")
    plt.close(figure)
    return path
