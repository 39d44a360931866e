"""Inputs for models of the index, drawn from a seed: lines and pages of text, sounds, bytes."""

import importlib.util
from pathlib import Path

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

WORDS = [
    "symmetry",
    "group",
    "turning",
    "mirror",
    "orbit",
    "pixel",
    "letter",
    "number",
    "seven",
    "eleven",
    "window",
    "garden",
    "river",
    "engine",
    "paper",
    "table",
    "green",
    "yellow",
    "winter",
    "summer",
    "music",
    "travel",
    "kitchen",
    "market",
    "bridge",
    "2024",
    "1789",
]


def _text(rng: np.random.Generator, words: int) -> str:
    return " ".join(rng.choice(WORDS, words))


def text_lines(count: int, height: int, width: int, seed: int = 0) -> Tensor:
    """Dark words on a light ground, (count, 3, height, width) in [0, 1]."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(count):
        picture = Image.new("RGB", (width, height), (int(rng.integers(225, 256)),) * 3)
        font = ImageFont.load_default(size=int(height * 0.6))
        text = _text(rng, 3)
        while font.getlength(text) > width - 8:
            text = text[:-1]
        start = (width - font.getlength(text)) / 2
        colour = tuple(rng.integers(0, 90, 3).tolist())
        ImageDraw.Draw(picture).text((start, height * 0.14), text, fill=colour, font=font)
        lines.append(np.asarray(picture))
    return torch.tensor(np.stack(lines)).permute(0, 3, 1, 2).float() / 255


def pages(count: int, side: int, seed: int = 0) -> Tensor:
    """Pages of ragged lines with a dark block, (count, 3, side, side) in [0, 1]."""
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        picture = Image.new("RGB", (side, side), (245, 245, 240))
        draw = ImageDraw.Draw(picture)
        size = int(rng.integers(side // 22, side // 14))
        font = ImageFont.load_default(size=size)
        for row in range(int(side * 0.75 / size / 1.4)):
            place = (side * 0.08, side * 0.06 + 1.4 * size * row)
            draw.text(place, _text(rng, int(rng.integers(1, 5))), fill=(20, 20, 30), font=font)
        left = int(rng.integers(side // 10, side // 2))
        draw.rectangle((left, side * 0.85, left + side // 4, side * 0.95), fill=(60, 90, 150))
        found.append(np.asarray(picture))
    return torch.tensor(np.stack(found)).permute(0, 3, 1, 2).float() / 255


def portraits(count: int, side: int, seed: int = 0) -> Tensor:
    """Cuts of the astronaut of scikit-image that show her face, (count, 3, side, side)."""
    found = importlib.util.find_spec("skimage")
    if found is None or found.submodule_search_locations is None:
        raise ImportError("scikit-image is not installed: it has the picture")
    picture = Image.open(Path(found.submodule_search_locations[0]) / "data" / "astronaut.png")
    rng = np.random.default_rng(seed)
    cuts = []
    for _ in range(count):
        size = int(rng.integers(260, 400))
        left, top = int(rng.integers(60, 110)), int(rng.integers(0, 30))
        cut = picture.convert("RGB").crop((left, top, left + size, top + size)).resize((side, side))
        cuts.append(np.asarray(cut))
    return torch.tensor(np.stack(cuts)).permute(0, 3, 1, 2).float() / 255


def sounds(count: int, length: int, seed: int = 0) -> Tensor:
    """Tones of a few harmonics with noise at 16 or 22 kHz, (count, length) in [-1, 1]."""
    rng = np.random.default_rng(seed)
    t = np.arange(length) / 16000
    waves = []
    for _ in range(count):
        f = rng.uniform(100, 400)
        parts = [rng.uniform(0, 1) / k * np.sin(2 * np.pi * f * k * t) for k in range(1, 7)]
        wave = sum(parts) + 0.02 * rng.normal(size=length)
        waves.append(0.5 * wave / np.abs(wave).max())
    return torch.tensor(np.stack(waves)).float()


def tones(count: int, length: int, seed: int = 0) -> Tensor:
    """Steady tones of a few harmonics, between 150 and 600 Hz at 16 kHz, (count, 1, length)."""
    rng = np.random.default_rng(seed)
    t = np.arange(length) / 16000
    f = np.exp(rng.uniform(np.log(150), np.log(600), (count, 1)))
    parts = [rng.uniform(0.3, 1, (count, 1)) / k * np.sin(2 * np.pi * k * f * t) for k in (1, 2, 3)]
    return torch.tensor(0.3 * sum(parts)).float()[:, None]


def bytes_of_text(count: int, length: int, seed: int = 0) -> Tensor:
    """Bytes of plain text, of CSV and of Python, (count, length) whole numbers."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        line = (
            lambda: _text(rng, 8) + ".\n",
            lambda: ",".join(str(v) for v in rng.integers(0, 999, 6)) + "\n",
            lambda: f"def {rng.choice(WORDS)}(x):\n    return x + {rng.integers(9)}\n\n",
        )[i % 3]
        text = ""
        while len(text) < length:
            text += line()
        rows.append(np.frombuffer(text[:length].encode(), np.uint8))
    return torch.tensor(np.stack(rows)).float()
