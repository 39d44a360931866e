"""The Lie derivative against the public code of Gruver et al. 2022, on one small network.

It needs a checkout of their repository, of which two files are imported:

    git clone https://github.com/ngruver/lie-deriv && git -C lie-deriv checkout ed96788
    python benchmarks/audit_lie.py --code lie-deriv

"theirs" is the mean square (the paper's, as its authors say) of the derivative of their code, which
differentiates bilinear interpolation at pixels, where it has a kink; "differences" the same by
central differences of their own transformations, as ours; "absolute" what their code reports end to
end. Their shifts count (W - 1) / 2 pixels as one, ours W / 2.
"""

import argparse
import importlib
import sys
import types
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from symmetries.actions import ImageAction
from symmetries.auditing import lie_derivative
from symmetries.groups import Affine2

sys.path.insert(0, str(Path(__file__).parent))
from common import record

SIDE, STEP = 128, 1e-3


def smooth_pictures() -> Tensor:
    """Pictures (6, 3, SIDE, SIDE) that are smooth, and black at the border."""
    small = torch.zeros(6, 3, 12, 12)
    small[:, :, 3:9, 3:9] = torch.rand(6, 3, 6, 6, generator=torch.Generator().manual_seed(0))
    return nn.functional.interpolate(small, (SIDE, SIDE), mode="bicubic").clamp(0, 1)


def rows(code: Path) -> list[dict[str, Any]]:
    """One row by parameter."""
    package = types.ModuleType("lee")
    package.__path__ = [str(code / "lee")]
    sys.modules["lee"] = package
    theirs: Any = importlib.import_module("lee.lie_derivs")
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(3, 8, 5, padding=2),
        nn.Tanh(),
        nn.AvgPool2d(4),
        nn.Flatten(),
        nn.Linear(8 * (SIDE // 4) ** 2, 10),
        nn.Softmax(1),
    ).eval()
    x, pixels = smooth_pictures(), SIDE / (SIDE - 1)
    ways: dict[str, tuple[Any, Any, float]] = {
        f"shift_{axis}": (
            lambda m, z, axis=axis: theirs.translation_lie_deriv(m, z, axis),
            lambda z, t, axis=axis: theirs.translate(z, t, axis),
            pixels,
        )
        for axis in "xy"
    }
    ways["rotation"] = (theirs.rotation_lie_deriv, theirs.rotate, 1.0)
    found = []
    for name, (derivative, move, unit) in ways.items():
        group = Affine2(name)
        (ours,) = lie_derivative(net, x, ImageAction(group), step=STEP)
        d = derivative(net, x).detach() * unit
        t = torch.tensor([STEP * group.bounds[0]]) * unit
        with torch.no_grad():
            ends = (net(move(x, t)) - net(move(x, -t))) / (2 * t / unit)
        squares = {"theirs": d.square().mean(), "differences": ends.square().mean()}
        row = {key: float(value) for key, value in squares.items()}
        row |= {"absolute": float(d.abs().mean()), "ours": ours.error.mean}
        found.append({"operation": "Lie derivative", "parameter": name, **row})
    return found


def main() -> None:
    """Compare, print and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--code", type=Path, help="their repository; nothing is run without it")
    asked = parser.parse_args()
    if asked.code is None:
        print("nothing to compare with: give --code")
        return
    found = rows(asked.code)
    for row in found:
        print(" ".join(f"{k} {v:.6g}" if isinstance(v, float) else str(v) for k, v in row.items()))
    record("audit_lie-cpu", found)


if __name__ == "__main__":
    main()
