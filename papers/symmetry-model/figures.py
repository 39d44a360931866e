"""Drawing: examples, prototypes, new versions (Figures 8, 13, 14), chains (11), marginals (10)."""

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
        arrays = dict(np.load(file))
        stem = folder / file.stem
        written += [
            _rows(arrays, Path(f"{stem}-resampled.png")),
            _orbits(arrays, Path(f"{stem}-orbits.png")),
            _chains(arrays, folder, Path(f"{stem}-chains.png")),
            _marginals(arrays, Path(f"{stem}-marginals.png")),
            _joints(arrays, Path(f"{stem}-joints.png")),
        ]
    return written


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
