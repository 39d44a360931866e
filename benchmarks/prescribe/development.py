"""Policies side by side, on seeds and pictures that no reported number uses.

``python -m benchmarks.prescribe.development --folder DATA --out FOLDER`` draws labelled pictures with
seeds from 100 on, trains a network with each policy and measures on other pictures of the *training*
set; the same policies are scored on folds of the labelled pictures, as ``prescribe`` does.
"""

import argparse
import json
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from symmetries.analysis import augmentation_laws
from symmetries.analysis.augmentation_laws import Law
from symmetries.analysis.quick_networks import Size, Trial, held_out_scores, order, scores_of, train
from symmetries.data import load
from symmetries.training.step import mix

ALL = augmentation_laws.MIXED
MID = {"rotation": 20.0, "shift": 0.1, "zoom": 1.2}
WIDE = {"rotation": 30.0, "shift": 0.15, "zoom": 1.4}
GENTLE = {"rotation": 10.0, "shift": 0.05, "zoom": 1.1}
POLICIES: dict[str, tuple[dict[str, float], tuple[str, ...]]] = {
    "none": ({}, ALL),
    "grid shift": ({"shift": 0.1}, ALL),
    "grid 15": ({"rotation": 15, "shift": 0.05, "zoom": 1.1}, ALL),
    "grid 30": ({"rotation": 30, "shift": 0.1, "zoom": 1.2}, ALL),
    "grid flip": ({"rotation": 15, "shift": 0.1, "flip_x": 0.5}, ALL),
    "mid mix": (MID | {"mix": 1.0}, ALL),
    "wide mix": (WIDE | {"mix": 1.0}, ALL),
    "gentle mix": (GENTLE | {"mix": 1.0}, ALL),
    "shift mix": ({"shift": 0.1, "mix": 1.0}, ALL),
    "mix": ({"mix": 1.0}, ALL),
    "shift mix flip": ({"shift": 0.1, "mix": 1.0, "flip_x": 0.5}, ALL),
    "gentle mix flip erase": (GENTLE | {"mix": 1.0, "flip_x": 0.5, "erase": 0.25}, ALL),
    "mid mix flip": (MID | {"mix": 1.0, "flip_x": 0.5}, ALL),
    "mid mix erase": (MID | {"mix": 1.0, "erase": 0.25}, ALL),
    "wide mix erase": (WIDE | {"mix": 1.0, "erase": 0.25}, ALL),
    "mid": (MID, ALL),
    "wide": (WIDE, ALL),
    "around": ({"rotation": 180.0, "shift": 0.1, "zoom": 1.2}, ALL),
    "mid light": (MID | {"light": 0.4}, ALL),
    "mid erase": (MID | {"erase": 0.25}, ALL),
    "mid light erase": (MID | {"erase": 0.25, "light": 0.4}, ALL),
    "mid mix: shear": (MID | {"mix": 1.0}, ALL[:3]),
    "mid mix: light": (MID | {"mix": 1.0}, (ALL[0], *ALL[3:])),
    "mid mix: tones": (MID | {"mix": 1.0}, (ALL[0], *ALL[7:])),
    "mid mix: no tones": (MID | {"mix": 1.0}, ALL[:7]),
    "mid half mix": (MID | {"mix": 0.5}, ALL),
}


def trivial(x: Tensor, rows: Tensor, seed: int) -> Tensor:
    """Pictures of all steps after torchvision's TrivialAugmentWide, one draw for each."""
    from torchvision.transforms import v2

    torch.manual_seed(seed)
    transform = v2.TrivialAugmentWide()
    pixels = (255 * x).round().clamp(0, 255).byte()
    return torch.stack([transform(pixels[row]) for row in rows.flatten().tolist()])


def cell(task: tuple[str, int, int, argparse.Namespace]) -> None:
    """One data set, number of labels and seed."""
    name, labels, seed, given = task
    began = time.time()
    torch.set_num_threads(1)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train_set = load(name, "train", str(Path(given.folder) / name))
    shuffled = torch.randperm(len(train_set), generator=torch.Generator().manual_seed(seed))
    few, others = shuffled[:labels], shuffled[-given.test :]
    x, y = train_set.images[few].to(device), train_set.labels[few]
    far, own = train_set.images[others].to(device), train_set.labels[others]
    fill = None if name == "cifar10" else 0.0
    size = Size(given.steps, 128, 3, given.network)
    short = Size(given.short, 128, 3, given.network)
    found: dict[str, Any] = {"data": name, "labels": labels, "seed": seed, "policies": {}}
    path = Path(given.out) / f"{name}-{labels}-{seed}.json"

    def keep(key: str, values: dict[str, Any]) -> None:
        found["policies"].setdefault(key, {}).update(values)
        found["seconds"] = round(time.time() - began, 1)
        path.write_text(json.dumps(found) + "\n")

    last, longest = time.time(), 15.0

    def enough() -> bool:
        """Whether another part can end in time."""
        nonlocal last, longest
        longest, last = max(longest, time.time() - last), time.time()
        return given.until - last > 1.3 * longest

    groups: dict[tuple[str, ...], list[str]] = {}
    for key, (_, kinds) in POLICIES.items():
        groups.setdefault(kinds, []).append(key)
    for kinds, keys in groups.items():
        augmentation_laws.MIXED = kinds
        if not enough():
            return
        trials = [Trial(x, y, [Law(**POLICIES[key][0])] * 10, fill, size, seed) for key in keys]
        for key, net in zip(keys, train(trials), strict=True):
            keep(key, {"far": scores_of(net, far, own).mean(1).tolist()})
        print(name, labels, seed, "trained", len(keys), round(time.time() - began), flush=True)
    if not given.plain:
        rows = order(len(x), size, torch.Generator().manual_seed(mix(seed, 81) % 2**31))
        made = trivial(x.cpu(), rows, seed).to(device) / 255
        if not enough():
            return
        flat = torch.arange(rows.numel()).view_as(rows)
        one = Trial(made, y[rows.flatten()], [Law()] * 10, fill, size, seed, flat)
        keep("TrivialAugmentWide", {"far": scores_of(train([one])[0], far, own).mean(1).tolist()})
        del made, one
    for kinds, keys in groups.items():
        augmentation_laws.MIXED = kinds
        for first in range(0, len(keys), 6):
            if not enough():
                return
            part = keys[first : first + 6]
            laws = [[Law(**POLICIES[key][0])] * 10 for key in part]
            scores = held_out_scores(x, y, laws, fill, short, [seed])
            for key, one in zip(part, scores[:, 0, 0], strict=True):
                keep(key, {"folds": one.mean(1).tolist()})
    print(name, labels, seed, "done", round(time.time() - began), flush=True)


def main() -> None:
    """Cells in parallel."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seeds", type=int, nargs="+", default=[100, 101])
    parser.add_argument("--labels", type=int, nargs="+", default=[300, 1250, 5000])
    parser.add_argument("--data", nargs="+", default=["mnist", "fashion-mnist", "cifar10"])
    parser.add_argument("--steps", type=int, default=1500)
    parser.add_argument("--short", type=int, default=800)
    parser.add_argument("--network", default="resnet")
    parser.add_argument("--test", type=int, default=10000)
    parser.add_argument("--processes", type=int, default=6)
    parser.add_argument("--budget", type=float, default=36000)
    parser.add_argument("--plain", action="store_true", help="without TrivialAugmentWide")
    given = parser.parse_args()
    given.until = time.time() + given.budget
    os.makedirs(given.out, exist_ok=True)
    tasks = [
        (name, labels, seed, given)
        for seed in given.seeds
        for labels in given.labels
        for name in given.data
    ]
    with multiprocessing.get_context("spawn").Pool(given.processes, maxtasksperchild=1) as pool:
        for _ in pool.imap_unordered(cell, tasks, chunksize=1):
            pass


if __name__ == "__main__":
    main()
