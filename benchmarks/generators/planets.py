"""Planets from 1900 to 2050: which motions leave the strength of the Sun's pull as it is?

Places relative to the Sun and accelerations relative to the centre of the solar system are those of
the ephemeris DE421 (package de421, read by jplephem), 700 times for each planet. The output is the
size of the acceleration; nothing says that it falls with the square of the distance, or that the
planets move in a plane. 20 consecutive times of a planet are a unit. Planets pull each other by
0.0002 (Mercury to Mars) to 0.005 (Saturn) of the Sun's pull, which is not symmetric about it: so
epsilon is 0.001 and 0.02. By Noether's theorem a rotation A of the potential conserves v.Ax: its
drift over 150 years is shown, beside the range of the speeds.

Run with: python -m benchmarks.generators.planets (needs de421 and jplephem)
"""

import argparse
import itertools

import numpy as np
from benchmarks.generators.packaged import PLANETS, packaged_file
from benchmarks.generators.records import Clock, record
from numpy.typing import NDArray

import symmetries

KILOMETRES, TIMES, STEP, EPSILONS = 149_597_870.7, 700, 0.25, (0.02, 0.001)
SETS = {
    "Mercury to Mars": ("mercury", "venus", "earthmoon", "mars"),
    "Jupiter to Pluto": ("jupiter", "saturn", "uranus", "neptune", "pluto"),
}
Array = NDArray[np.float64]


def motions(names: tuple[str, ...]) -> tuple[Array, Array, Array]:
    """Places, velocities and accelerations (planets, times, 3) in astronomical units and days."""
    import de421
    from jplephem.ephem import Ephemeris

    for name in PLANETS:
        packaged_file(name)
    ephemeris = Ephemeris(de421)
    days = np.linspace(2_415_022.5, 2_469_805.5, TIMES)  # 1900 to 2050

    def state(name: str, at: Array) -> Array:
        found = np.stack(ephemeris.position_and_velocity(name, at))  # (2, 3, times)
        return found.transpose(0, 2, 1) / KILOMETRES

    places, speeds, pulls = [], [], []
    for name in names:
        relative = state(name, days) - state("sun", days)
        places.append(relative[0])
        speeds.append(relative[1])
        change = state(name, days + STEP)[1] - state(name, days - STEP)[1]
        pulls.append(change / (2 * STEP))
    return np.stack(places), np.stack(speeds), np.stack(pulls)


def one_run(title: str, fields: str, epsilon: float) -> dict[str, object]:
    """One set of planets."""
    places, speeds, pulls = motions(SETS[title])
    x = places.reshape(-1, 3)
    y = np.linalg.norm(pulls, axis=2).reshape(-1)
    units = np.arange(len(x)) // 20
    found = symmetries.generators(x, y, fields=fields, units=units, epsilon=epsilon)
    row: dict[str, object] = {"planets": title, "fields": fields, "epsilon": epsilon}
    row["answer"] = found.answer
    row |= {"dimension": list(found.dimension), "source": found.source}
    row["unexplained"] = found.fit.unexplained
    row["generators"] = [
        {"text": part.text, "defect": part.defect, "low": part.low, "high": part.high}
        for part in found.generators
    ]
    following = found.spectrum[len(found.generators) :]
    row["next defect"] = following[0].defect if following else None
    for turn in [] if found.fitted is None else found.fitted.generators[:, :3, :3].numpy():
        if np.linalg.norm(turn + turn.T) < 0.2 * np.linalg.norm(turn):  # a rotation
            charge = np.einsum("pti,ij,ptj->pt", speeds, turn, places)
            largest = np.linalg.norm(np.cross(places, speeds), axis=2).mean(1)
            drift = float((np.ptp(charge, axis=1) / largest).max())
            row["drift of v.Ax"] = max(drift, row.get("drift of v.Ax", 0.0))
    size = np.linalg.norm(speeds, axis=2)
    row["range of the speed"] = float((np.ptp(size, axis=1) / size.mean(1)).max())
    return row


def main() -> None:
    """Search and record."""
    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    clock, rows = Clock(), []
    for title, fields, epsilon in itertools.product(SETS, ("affine", "linear"), EPSILONS):
        rows.append(one_run(title, fields, epsilon))
        print(rows[-1], flush=True)
    summary = {}
    for row in rows:
        words = str(row["answer"])
        if "drift of v.Ax" in row:
            words += f"; v.Ax is conserved up to {row['drift of v.Ax']:.1g}, "
            words += f"speeds vary by {row['range of the speed']:.1g}"
        summary[f"{row['planets']}, {row['fields']}, epsilon {row['epsilon']:g}"] = words
    settings = {"level": 0.95, "times": TIMES, "package": "de421 2008.1, MIT"}
    record("planets", summary, rows, clock, settings)


if __name__ == "__main__":
    main()
