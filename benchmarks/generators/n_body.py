"""Two and three bodies: the symmetry of their motion, found in trajectories, and what it is worth.

Bodies of equal mass on almost circular orbits about their centre, 20 states each. Training orbits
begin in the lower half of the plane and test orbits in the upper half, so that a network predicts
well only if it knows that turned motions are motions. As in LieGAN's experiment a network (three
hidden layers of 32 units, ReLU) predicts five states from five, trained for 2,000 epochs by Adam
(1e-4, batches of 512) on windows that random elements exp(z G), z ~ N(0, 9), move; G is the
generator that was found (linear fields of all coordinates, law "dynamics", from each state to the
step that follows), the true one, or none. Of three bodies, whose steps polynomials explain less
well, one 2 x 2 matrix is looked for that moves all places and velocities, up to 0.1. A file of
LieGAN's own orbits (arrays train and test of shape (n, 20, 8)) may be given instead, and a
generator that LieGAN found (8, 8).

Run with: python -m benchmarks.generators.n_body --bodies 2
"""

import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
from benchmarks.generators.records import Clock, parallel, record
from torch import Tensor, nn

import symmetries
from symmetries.results import GeneratorResult

STATES, SHOWN, EPOCHS, BATCH, RATE = 20, 5, 2000, 512, 1e-4
STEP = {2: 0.41, 3: 0.3}  # time between states
VECTORS = {2: 1, 3: 6}  # that one matrix moves
EPSILON = {2: 0.02, 3: 0.1}
NOISE = {2: 1e-3, 3: 0.02}  # of the first velocities, relative to those of a circle


def acceleration(places: Tensor) -> Tensor:
    """Gravity (n, bodies, 2) of bodies of mass 1 at places (n, bodies, 2)."""
    apart = places[:, None] - places[:, :, None]
    cubes = apart.square().sum(-1).add(torch.eye(places.shape[1], dtype=places.dtype)) ** 1.5
    return (apart / cubes[..., None]).sum(2)


def orbits(bodies: int, count: int, lower: bool, generator: torch.Generator) -> Tensor:
    """States (count, 20, 4 bodies): places of all bodies, then their velocities."""
    draw = torch.rand(2, count, generator=generator, dtype=torch.float64)
    radius = 1.5 + 1.5 * draw[0]
    angle = math.pi * (draw[1] - float(lower))
    at = angle[:, None] + 2 * math.pi * torch.arange(bodies, dtype=torch.float64) / bodies
    unit = torch.stack((at.cos(), at.sin()), -1)
    places = radius[:, None, None] * unit
    pull = -(acceleration(places) * unit).sum(-1, keepdim=True)
    around = torch.stack((-unit[..., 1], unit[..., 0]), -1)
    speeds = (pull * radius[:, None, None]).sqrt() * around
    noise = torch.randn(speeds.shape, generator=generator, dtype=torch.float64)
    noise = noise - noise.mean(1, keepdim=True)  # the centre stays where it is
    speeds = speeds + NOISE[bodies] * speeds.norm(dim=-1, keepdim=True) * noise
    states, small = [], STEP[bodies] / 40
    for index in range(40 * (STATES - 1) + 1):  # leapfrog
        if index % 40 == 0:
            states.append(torch.cat((places.flatten(1), speeds.flatten(1)), 1))
        half = speeds + small / 2 * acceleration(places)
        places = places + small * half
        speeds = half + small / 2 * acceleration(places)
    return torch.stack(states, 1)


def windows(states: Tensor) -> tuple[Tensor, Tensor]:
    """Five states and the five that follow, (n, 5, d) each, in float32."""
    starts = range(states.shape[1] - 2 * SHOWN)
    parts = torch.stack([states[:, s : s + 2 * SHOWN] for s in starts], 1).flatten(0, 1).float()
    return parts[:, :SHOWN], parts[:, SHOWN:]


def test_loss(train: Tensor, test: Tensor, matrix: Tensor | None, seed: int, epochs: int) -> float:
    """Mean squared error on test windows of a network that was trained on moved windows."""
    torch.manual_seed(seed)
    (x, y), (held, after) = windows(train), windows(test)
    size = x[0].numel()
    layers: list[nn.Module] = []
    for inputs in (size, 32, 32):
        layers += [nn.Linear(inputs, 32), nn.ReLU()]
    network = nn.Sequential(*layers, nn.Linear(32, size))
    optimiser = torch.optim.Adam(network.parameters(), lr=RATE, fused=True)
    turn = None if matrix is None else Turn(matrix)
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(BATCH):
            given, wanted = x[rows], y[rows]
            if turn is not None:
                element = turn(3 * torch.randn(len(rows)))
                given, wanted = (part @ element.mT for part in (given, wanted))
            optimiser.zero_grad()
            loss = (network(given.flatten(1)) - wanted.flatten(1)).square().mean()
            loss.backward()
            optimiser.step()
    with torch.no_grad():
        return float((network(held.flatten(1)) - after.flatten(1)).square().mean())


def one_training(
    name: str, train: Tensor, test: Tensor, matrix: Tensor | None, seed: int, epochs: int
) -> dict[str, object]:
    """One network, trained on windows that one generator moves."""
    loss = test_loss(train, test, matrix, seed, epochs)
    return {"generator": name, "seed": seed, "test loss": loss}


class Turn:
    """exp(t G) of many t, from the eigenvectors of one generator G."""

    def __init__(self, matrix: Tensor) -> None:
        self.values, self.vectors = torch.linalg.eig(matrix.to(torch.complex128))
        self.inverse = torch.linalg.pinv(self.vectors)

    def __call__(self, times: Tensor) -> Tensor:
        """Elements (n, d, d)."""
        powers = torch.exp(times[:, None].to(torch.complex128) * self.values)
        return ((self.vectors * powers[:, None]) @ self.inverse).real.float()


def true_generator(bodies: int) -> Tensor:
    """The turn of all places and velocities, (d, d)."""
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    return torch.block_diag(*[turn] * 2 * bodies)


def read(path: Path) -> tuple[Tensor, Tensor]:
    """LieGAN's orbits, in the order of coordinates of :func:`orbits`."""
    order = [0, 2, 1, 3, 4, 6, 5, 7]
    with np.load(path) as file:
        train, test = (torch.from_numpy(file[name])[..., order] for name in ("train", "test"))
    return train, test


def search(
    train: Tensor, epsilon: float, degree: int | None = None, vectors: int = 1
) -> tuple[GeneratorResult, float]:
    """The symmetries of the step from each state to the next, and the processor time."""
    x, y = train[:, :-1], train[:, 1:] - train[:, :-1]
    units = torch.arange(len(train)).repeat_interleave(STATES - 1)
    begun = time.process_time()
    found = symmetries.generators(
        x.flatten(0, 1),
        y.flatten(0, 1),
        law="dynamics",
        fields="linear",
        units=units,
        epsilon=epsilon,
        degree=degree,
        vectors=vectors,
    )
    return found, time.process_time() - begun


def main() -> None:
    """Search, train and record."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--bodies", type=int, default=2, choices=(2, 3))
    parser.add_argument("--orbits", type=Path, help="LieGAN's, as an .npz file")
    parser.add_argument("--peer", type=Path, help="LieGAN's generator (8, 8), as an .npy file")
    parser.add_argument("--epsilon", type=float, help="0.02 for two bodies, 0.1 for three")
    parser.add_argument("--degree", type=int, help="of the polynomials; else chosen")
    parser.add_argument("--cases", nargs="+", help="first words of those to train for")
    parser.add_argument("--epochs", type=int, default=EPOCHS)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    if given.orbits is not None:
        train, test = read(given.orbits)
    else:
        train, test = (orbits(given.bodies, 800, lower, generator) for lower in (True, False))
    clock = Clock()
    epsilon, vectors = given.epsilon or EPSILON[given.bodies], VECTORS[given.bodies]
    found, seconds = search(train, epsilon, given.degree, vectors)
    truth = true_generator(given.bodies)
    cases: dict[str, Tensor | None] = {"none": None, "true generator": truth}
    error = None
    if found.fitted is not None:
        learned = torch.block_diag(*[found.fitted.generators[0]] * vectors)
        flat = train.flatten(0, 1)
        moved = flat @ (learned - truth * (learned * truth).sum().sign()).T
        error = float(moved.norm() / (flat @ truth.T).norm())
        cases = {"learned generator": learned} | cases
    if given.peer is not None:
        order = [0, 1, 4, 5, 2, 3, 6, 7]  # LieGAN's coordinates are body by body
        theirs = torch.from_numpy(np.load(given.peer)).double()
        cases["LieGAN's generator"] = theirs[order][:, order]
    chosen = tuple(given.cases or cases)
    cases = {name: matrix for name, matrix in cases.items() if name.startswith(chosen)}
    trainings = [
        (name, train, test, matrix, seed, given.epochs)
        for name, matrix in cases.items()
        for seed in range(given.seeds)
    ]
    rows = []
    for row in parallel(one_training, trainings, given.workers, chunk=1):
        rows.append(row)
        print(row, flush=True)
    summary: dict[str, object] = {
        "answer": found.answer,
        "largest defect and upper limit": [
            (round(part.defect, 5), round(part.high, 5)) for part in found.generators
        ],
        "defect of the next field": found.spectrum[len(found.generators)].defect,
        "error of the generator on the data": error,
        "processor seconds of the search": round(seconds, 1),
    }
    for name in cases:
        losses = [row["test loss"] for row in rows if row["generator"] == name]
        summary[f"test loss, {name}"] = [float(f"{loss:.3g}") for loss in losses]
    settings = {"bodies": given.bodies, "epsilon": epsilon, "level": 0.95}
    settings |= {
        "degree": found.fit.degree if found.fit else None,
        "epochs": given.epochs,
        "seeds": f"0 to {given.seeds - 1}",
    }
    settings["orbits"] = "generated, seed 0" if given.orbits is None else "LieGAN's"
    name = f"{given.bodies}_body" + ("" if given.orbits is None else "-liegan")
    record(name, summary, rows, clock, settings)


if __name__ == "__main__":
    main()
