"""Lines of text upside down: rapidocr's recogniser bare, behind its angle classifier, and wrapped.

``python -m benchmarks.wrap.text_lines FOLDER`` takes the folder of models of the package
rapidocr-onnxruntime. Lines of random words are drawn in several fonts; a share of exactly read
lines is counted on lines that no part has seen, upright and turned by 180 degrees.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import onnx
import torch
from benchmarks.common import environment
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

import symmetries
from symmetries.analysis.preprocessing import make_preprocessing
from symmetries.analysis.stored_models import load_classifier
from symmetries.learners.orbit_posterior import Network, OrbitConfig, Training
from symmetries.learners.orbit_posterior.config import Views

SIZE = (48, 192)
FONTS = ("DejaVuSans", "DejaVuSerif", "DejaVuSansMono", "DejaVuSans-Bold")
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
NORMAL = "0.5,0.5,0.5/0.5,0.5,0.5"
POSES = OrbitConfig.preset("quick").replace(
    network=Network(kind="cnn", channels=16, features=64, dropout=0.1, largest=192),
    training=Training(steps=1200, batch_size=64, rounds=1, lr=5e-4),
    views=Views(before=0.3, least=0.25, most=0.6, jitter=0.0, readings=2),
)


def lines(count: int, seed: int) -> tuple[Tensor, list[str]]:
    """Dark words on a light ground (N, 3, 48, 192), and what they say."""
    rng = np.random.default_rng(seed)
    folder = Path(matplotlib.get_data_path()) / "fonts" / "ttf"
    pictures, texts = [], []
    for _ in range(count):
        text = "".join(rng.choice(list(LETTERS), int(rng.integers(5, 9))))
        font = ImageFont.truetype(
            str(folder / f"{rng.choice(FONTS)}.ttf"), int(rng.integers(22, 29))
        )
        picture = Image.new("RGB", SIZE[::-1], (int(rng.integers(225, 256)),) * 3)
        place = (SIZE[1] / 2 + rng.uniform(-8, 8), SIZE[0] / 2 + rng.uniform(-3, 3))
        colour = tuple(rng.integers(0, 90, 3).tolist())
        ImageDraw.Draw(picture).text(place, text, fill=colour, font=font, anchor="mm")
        pictures.append(np.asarray(picture))
        texts.append(text)
    return torch.tensor(np.stack(pictures)).permute(0, 3, 1, 2).float() / 255, texts


def alphabet(path: Path) -> list[str]:
    """Characters of the recogniser, by number; 0 is the blank."""
    known = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    return ["", *known["character"].splitlines(), " "]


def read(scores: Tensor, characters: list[str]) -> list[str]:
    """Texts from scores (N, T, K): repeated symbols are one, blanks are left out."""
    found = []
    for row in scores.argmax(-1).tolist():
        kept = [b for a, b in zip([None, *row], row, strict=False) if a != b and b]
        found.append("".join(characters[k] for k in kept))
    return found


def share(found: list[str], texts: list[str]) -> float:
    """Per cent that is read exactly, without regard to spaces."""
    right = [a.replace(" ", "") == b for a, b in zip(found, texts, strict=True)]
    return round(100 * sum(right) / len(right), 1)


@torch.no_grad()
def main() -> None:
    """Measure all on the same lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", type=Path)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--test", type=int, default=200)
    given = parser.parse_args()
    start = time.perf_counter()
    recogniser, angles = (
        given.models / name
        for name in ("ch_PP-OCRv4_rec_infer.onnx", "ch_ppocr_mobile_v2.0_cls_infer.onnx")
    )
    characters = alphabet(recogniser)
    reference, held = lines(2500, 0)[0], lines(80, 1)[0]
    with torch.enable_grad():
        result = symmetries.wrap(
            recogniser,
            reference,
            "c2",
            held_out=held,
            output="ctc",
            normalize=NORMAL,
            preset=POSES,
            device="cpu",
            progress=False,
        )
    x, texts = lines(given.test, 2)
    how: dict[str, Any] = {"images": x[:8], "preprocessing": make_preprocessing(NORMAL)}
    bare = load_classifier(recogniser, False, "cpu", output="ctc", **how).call
    angle = load_classifier(angles, False, "cpu", output="probabilities", **how).call

    def upright(y: Tensor) -> Tensor:
        turned = angle(y)[:, 1].exp() > 0.9  # as rapidocr decides
        return torch.where(turned[:, None, None, None], y.flip((2, 3)), y)

    rows: dict[str, dict[str, float]] = {}
    for pose, y in (("upright", x), ("turned", x.flip((2, 3)))):
        ways = {
            "bare": lambda part: bare(part),
            "angle classifier": lambda part: bare(upright(part)),
            "wrapped": lambda part: result.fitted(part),
        }
        for name, call in ways.items():
            found = [t for part in y.split(50) for t in read(call(part), characters)]
            rows.setdefault(name, {})[pose] = share(found, texts)
    given.out.mkdir(parents=True, exist_ok=True)
    facts = {
        "name": "wrap-text-lines",
        **environment(),
        "rule": result.rule,
        "threshold": result.threshold,
        "warnings": result.warnings,
        "latency_ms": [one.model_dump() for one in result.latency],
        "seconds": round(time.perf_counter() - start, 1),
        "lines": given.test,
        "rows": rows,
    }
    (given.out / "text-lines.json").write_text(json.dumps(facts, indent=1) + "\n")
    print(rows, result.rule, result.threshold, result.warnings, result.latency)


if __name__ == "__main__":
    main()
