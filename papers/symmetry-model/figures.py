"""Pictures: new versions (Figure 8), modes (10), chains (11), orbits (13), marginals, places."""

import json
from pathlib import Path

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.figure import Figure


def draw(folder: Path) -> list[Path]:
    """Draw whatever the folder holds the numbers of."""
    written = []
    for file in sorted(folder.glob("*.npz")):
        arrays = {name: _wide(part) for name, part in np.load(file).items()}
        stem = folder / file.stem
        written += [
            _rows(arrays, Path(f"{stem}-resampled.png")),
            _orbits(arrays, Path(f"{stem}-orbits.png")),
            _chains(arrays, folder, Path(f"{stem}-chains.png")),
            _marginals(arrays, Path(f"{stem}-marginals.png")),
            _joints(arrays, Path(f"{stem}-joints.png")),
        ]
        if "mode_images" in arrays:
            written.append(_modes(arrays, Path(f"{stem}-modes.png")))
        if "places_heart" in arrays:
            written.append(_places(arrays, Path(f"{stem}-places.png")))
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
        row[2].set_title(f"{int(arrays['mode_counts'][i])} modes", fontsize=7, pad=2)
        for axis in row:
            axis.set_xticks([])
            axis.set_yticks([])
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
            row[column + 1].set_xticks([])
            row[column + 1].set_yticks([])
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
    return _save(figure, path)


def _rows(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Test images, their prototypes, and new versions."""
    new = arrays["new"].swapaxes(0, 1)
    images = np.concatenate((arrays["examples"][None], arrays["prototypes"][None], new))
    return _picture(images, ["test", "prototype", *["new"] * len(new)], path)


def _orbits(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Versions of one image above, their prototypes below."""
    pairs = np.stack((arrays["orbit"][:6], arrays["orbit_prototypes"][:6]), 1)
    images = pairs.reshape(-1, *pairs.shape[2:])
    return _picture(images, ["versions", "prototypes"] * 6, path)


def _chains(arrays: dict[str, np.ndarray], folder: Path, path: Path) -> Path:
    """Iterated prototypes (Figure 11)."""
    images = np.concatenate((arrays["examples"][:, None], arrays["chain"]), 1)[:10]
    return _picture(images, [str(i) for i in range(len(images))], path)


def _marginals(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """p(eta_i | x_hat) beside the image and its prototype."""
    names = [str(name) for name in arrays["names"]]
    count = min(12, len(arrays["examples"]))
    columns = 2 + len(names)
    figure, axes = plt.subplots(count, columns, figsize=(1.3 * columns, 0.9 * count))
    for i in range(count):
        for column, part in enumerate(("examples", "prototypes")):
            axes[i, column].imshow(_tiles(arrays[part][i][None, None]), cmap="gray", vmin=0, vmax=1)
        for j, name in enumerate(names):
            axis = axes[i, 2 + j]
            axis.stairs(arrays["density"][i, j], arrays["edges"][j], fill=True)
            if i == 0:
                axis.set_title(name, fontsize=8)
        for axis in axes[i]:
            axis.set_xticks([])
            axis.set_yticks([])
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
            axis.set_xticks([])
            axis.set_yticks([])
            if i == n - 1:
                axis.set_xlabel(names[j], fontsize=7)
            if j == 0:
                axis.set_ylabel(names[i], fontsize=7)
    return _save(figure, path)


def _save(figure: Figure, path: Path) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=120, bbox_inches="tight")
    plt.close(figure)
    return path


def table(folder: Path) -> str:
    """The rows of results.json as a table in Markdown."""
    runs = json.loads((folder / "results.json").read_text())["runs"]
    lines = ["| task | added | seed | width90 | expected | orbit variance | next eta | minutes |"]
    lines.append("| --- | --- | --- | --- | --- | --- | --- | --- |")
    for run in runs:
        rotation = run.get("rotation", {})
        variance = run.get("orbit_variance_refine_0", {}).get("ratio", float("nan"))
        lines.append(
            f"| {run['task']} | {run['added']:g} | {run['seed']} | "
            f"{rotation.get('width90', float('nan')):.0f} | "
            f"{rotation.get('expected', float('nan')):.0f} | {variance:.3f} | "
            f"{100 * run['iterated'][1]:.1f} % | {run['seconds'] / 60:.1f} |"
        )
    return "\n".join(lines)
