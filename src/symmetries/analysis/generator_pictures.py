"""Pictures of generators: orbits through the data."""

from collections.abc import Sequence

import torch
from torch import Tensor

from symmetries.analysis.tables import VectorTable
from symmetries.results.pictures import OrbitCurves

DRAWN, STEPS, PANELS = 40, 25, 6  # points, steps and generators


def orbit_curves(table: VectorTable, matrices: Tensor, texts: Sequence[str]) -> OrbitCurves:
    """Orbits through some of the points, in the two coordinates that each generator moves most.

    Args:
        table: the data.
        matrices: generators, homogeneous matrices (k, d + 1, d + 1).
        texts: the generators as text.
    """
    panels = []
    points = table.x[:: max(1, len(table.x) // DRAWN)][:DRAWN]
    points = points[:, : matrices.shape[-1] - 1]  # the first, where a row has several vectors
    whole = torch.cat((points, torch.ones(len(points), 1, dtype=points.dtype)), 1)
    for matrix, text in zip(matrices[:PANELS], texts, strict=False):
        speed = (whole @ matrix.T)[:, :-1].square().mean(0)
        axes = sorted(speed.argsort(descending=True)[:2].tolist())
        axes = axes if len(axes) == 2 else [axes[0], axes[0]]
        size = float(points[:, axes].std() / (whole @ matrix.T)[:, axes].norm(dim=1).mean())
        times = torch.linspace(-0.6, 0.6, STEPS, dtype=points.dtype) * size
        flow = torch.linalg.matrix_exp(times[:, None, None] * matrix)
        curves = torch.einsum("tab,nb->nta", flow, whole)[..., axes]
        labels = tuple(table.names[i] for i in axes)
        panels.append((text, labels, points[:, axes].numpy(), curves.numpy()))
    return OrbitCurves(tuple(panels))
