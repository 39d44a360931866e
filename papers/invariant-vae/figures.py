"""Drawing: Figures 5 and 6 of the joint model, Figure 9 of the VAEs, new images."""

import json
import math
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from vae_rows import chosen

PLOT = 160  # dots per inch of plots; pictures of many small images have fewer
NAMES = {"fixed": "fixed augmentation"}
COLOURS = {"VAE": "tab:blue", "fixed": "tab:grey", "AugVAE": "tab:orange", "InvVAE": "tab:green"}


def draw(folder: Path) -> list[Path]:
    """Draw whatever the folder holds the numbers of, into its folder ``figures``."""
    (folder / "figures").mkdir(exist_ok=True)
    written = []
    angles: dict[str, dict[float, dict[str, np.ndarray]]] = {}
    for file in sorted(folder.glob("*.npz")):
        arrays = dict(np.load(file))
        path = folder / "figures" / f"{file.stem.replace('.0', '')}.png"
        part, *rest = file.stem.split("-")
        if part in ("rotation", "affine", "learned"):
            written.append(_joint(arrays, path))
            if part == "rotation":
                angles.setdefault(rest[0], {}).setdefault(float(rest[1]), arrays)  # one seed
        elif part == "figure9":
            written.append(_new_images(arrays, path))
    most = max(angles.values(), key=len, default={})  # with the same number of steps
    if len(most) > 1:
        written.append(_spreads(most, folder / "figures" / "figure6.png"))
    file = folder / "results.json"
    rows = json.loads(file.read_text())["rows"] if file.exists() else []
    nine = [row for row in rows if row["part"] == "figure9"]
    if nine:
        written.append(_efficiency(chosen(nine), folder / "figures" / "figure9.png"))
    return written


def tiles(images: np.ndarray, columns: int) -> np.ndarray:
    """(N, 1, H, W) as one picture of rows of ``columns`` images."""
    count, _, height, width = images.shape
    rows = count // columns
    block = images[: rows * columns, 0].reshape(rows, columns, height, width)
    picture = block.transpose(0, 2, 1, 3).reshape(rows * height, columns * width)
    return np.clip(picture, 0, 1)


def _picture(rows: list[tuple[str, np.ndarray]], path: Path) -> Path:
    height = rows[0][1].shape[2]
    columns = rows[0][1].shape[0]
    picture = np.concatenate([tiles(images, columns) for _, images in rows])
    figure, axis = plt.subplots(figsize=(0.5 * columns + 1.2, 0.5 * len(rows) + 0.2))
    axis.imshow(picture, cmap="gray", vmin=0, vmax=1)
    axis.set_yticks([(i + 0.5) * height for i in range(len(rows))], [name for name, _ in rows])
    axis.set_xticks([])
    return _save(figure, path)


def _joint(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Test images, reconstructions, prototypes (Figure 5); turned copies; new images."""
    rows = [
        ("test", arrays["examples"]),
        ("reconstruction", arrays["reconstructions"]),
        ("prototype", arrays["prototypes"]),
        ("turned copies", arrays["copies"][:20]),
        ("their prototypes", arrays["copies_prototypes"][:20]),
        ("new", arrays["new"][:20]),
        ("their prototypes", arrays["new_prototypes"][:20]),
    ]
    return _picture(rows, path)


def _new_images(arrays: dict[str, np.ndarray], path: Path) -> Path:
    """Test images, reconstructions, new images, and prototypes where there are any."""
    rows = [("test", arrays["examples"]), ("reconstruction", arrays["reconstructions"])]
    if "prototypes" in arrays:
        rows.append(("prototype", arrays["prototypes"]))
    rows += [("new", arrays["new"][i : i + 20]) for i in (0, 20)]
    if "new_prototypes" in arrays:
        rows.append(("prototypes of these", arrays["new_prototypes"][20:40]))
    return _picture(rows, path)


def _spreads(angles: dict[float, dict[str, np.ndarray]], path: Path) -> Path:
    """Angles of q(eta | x) over the test images (Figure 6), each class about its own mean."""
    figure, axes = plt.subplots(
        1, len(angles), figsize=(2.2 * len(angles), 2.4), subplot_kw={"projection": "polar"}
    )
    for axis, added in zip(np.atleast_1d(axes), sorted(angles), strict=True):
        parts = []
        for name, values in angles[added].items():
            if name.startswith("angles_"):
                mean = np.arctan2(np.sin(values).mean(), np.cos(values).mean())
                parts.append(values - mean)
        around = np.mod(np.concatenate(parts) + math.pi, 2 * math.pi) - math.pi
        axis.hist(around, bins=72, range=(-math.pi, math.pi), density=True, color="tab:blue")
        for end in {-added, added} if added else ():  # planted
            axis.axvline(math.radians(end), color="black", linestyle="--", linewidth=1)
        axis.set_theta_zero_location("N")
        axis.set_yticks([])
        axis.set_title(f"±{added:g}°", fontsize=10)
    return _save(figure, path, PLOT)


def samples_page(folder: Path, path: Path) -> Path:
    """Thirty new digits each: from the prior on the left, from the density of codes beside it."""
    kinds = {"joint model, ±45 degrees": "joint-50000-45.0-0-0.2"}
    kinds |= {kind: f"{kind}-50000-0.0-0-0.2" for kind in ("InvVAE", "AugVAE", "VAE")}
    kinds["VAE, least noise 0.01"] = "VAE-50000-0.0-0-0.01"
    found = {name: np.load(folder / f"samples-{file}.npz") for name, file in kinds.items()}
    pictures = {
        f"{name}: {title}": arrays[codes][:30]
        for name, arrays in found.items()
        for codes, title in (("prior", "Gaussian prior"), ("fitted", "density of codes"))
    }
    for name in ("joint model, ±45 degrees", "VAE"):
        turned = "test images" + (", ±45 degrees" if "joint" in name else "")
        pictures[turned] = found[name]["examples"][:30]
    figure, axes = plt.subplots(6, 2, figsize=(7.4, 9))
    for axis, (name, images) in zip(axes.flat, pictures.items(), strict=True):
        axis.imshow(tiles(images, 10), cmap="gray", vmin=0, vmax=1)
        axis.set_title(name, fontsize=10)
        axis.axis("off")
    return _save(figure, path)


def _efficiency(rows: list[dict[str, Any]], path: Path) -> Path:
    """Bounds and errors against the size of the training set, a column for each added rotation.

    Means over seeds, bars from the lowest to the highest.
    """
    added = sorted({row["added"] for row in rows})
    size = (3.2 * len(added), 6.0)
    figure, axes = plt.subplots(
        2, len(added), figsize=size, sharex=True, sharey="row", squeeze=False
    )
    labels = {kind: _with_sizes(kind, rows) for kind in COLOURS}
    shown = {"bound, nats": ("bound", "prototype_bound")}
    shown["mean square error"] = ("reconstruction_error", "prototype_error")
    for (title, keys), line in zip(shown.items(), axes, strict=True):
        for axis, degrees in zip(line, added, strict=True):
            same = [row for row in rows if row["added"] == degrees]
            for kind, colour in COLOURS.items():
                _over_sizes(axis, same, kind, keys[0], fmt="o-", color=colour, label=labels[kind])
            name = "InvVAE, on the prototype"
            style = {"fmt": "o--", "color": COLOURS["InvVAE"], "mfc": "white"}
            _over_sizes(axis, same, "InvVAE", keys[1], label=name, **style)
        line[0].set_ylabel(title)
    for top, bottom, degrees in zip(*axes, added, strict=True):
        top.set_title(f"added rotation ±{degrees:g}°", fontsize=10)
        bottom.set_xlabel("training images")
        bottom.set_xscale("log")
        bottom.set_xticks([12_500, 25_000, 50_000], ["12.5k", "25k", "50k"])
        bottom.minorticks_off()
        bottom.set_ylim(bottom=0)
    handles, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, names, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncol=len(names))
    return _save(figure, path, PLOT)


def _with_sizes(kind: str, rows: list[dict[str, Any]]) -> str:
    """The name of a kind with its hidden units and steps, which are not the same for all."""
    same = [row for row in rows if row["kind"] == kind]
    spans = []
    for key, unit in (("hidden", "units"), ("steps", "steps")):
        ends = sorted({row[key] for row in same})
        spans.append(" to ".join(f"{n:,}" for n in dict.fromkeys((ends[0], ends[-1]))) + f" {unit}")
    return f"{NAMES.get(kind, kind)}\n{spans[0]}\n{spans[1]}"


def _over_sizes(
    axis: Axes,
    rows: list[dict[str, Any]],
    kind: str,
    key: str,
    **style: Any,  # noqa: ANN401
) -> None:
    """One kind's entry against the size, if it has any."""
    found: dict[int, list[float]] = {}
    for row in rows:
        if row["kind"] == kind:
            found.setdefault(row["size"], []).append(row[key])
    if not found:
        return
    sizes = sorted(found)
    means = [np.mean(found[size]) for size in sizes]
    reach = [
        [abs(mean - end(found[size])) for size, mean in zip(sizes, means, strict=True)]
        for end in (min, max)
    ]
    axis.errorbar(sizes, means, reach, capsize=3, **style)


def _save(figure: Figure, path: Path, dpi: int = 75) -> Path:
    figure.tight_layout()
    figure.savefig(path, dpi=dpi, bbox_inches="tight")
    plt.close(figure)
    return path
