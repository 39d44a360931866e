"""LieFlow's own code beside `find_subgroup`, on its data: C4 of the plane, T and SO(2) of space.

Needs a checkout of https://github.com/jypark0/lieflow (MIT licence) and the packages that it names;
it is run, not copied. Its data, network, settings and distance are its own: Wasserstein-1 between
5,000 elements and 5,000 true ones, of Frobenius norms in the plane and of angles in space. Epochs
are those given. In the plane, logarithms of rotations are computed in closed form, where its code
calls SciPy for one matrix at a time, which takes most of its time. `find_subgroup` is given the
first 1,000 of the 20,000 sets that LieFlow learns from.

Run with: python -m benchmarks.generators.peer_lieflow CHECKOUT --cases C4=1000 T=100
"""

import argparse
import importlib
import sys
import time
from pathlib import Path

import torch
from benchmarks.generators.records import Clock, record
from torch import Tensor

from symmetries.lie import find_subgroup

CASES = {
    "C4": ("C4_arrow", "SO2_to_C4_arrow", "so2"),
    "T": ("Tet_irreg_tet", "SO3_irreg_tet_time_power_dist", "so3"),
    "SO(2)": ("SO2_irreg_tet", "SO3_irreg_tet", "so3"),
}
GIVEN = 1000  # sets for find_subgroup


def planar_logarithm(matrix: Tensor) -> Tensor:
    """Logarithms (n, 2, 2) of rotations of the plane."""
    angle = torch.atan2(matrix[:, 1, 0] - matrix[:, 0, 1], matrix[:, 0, 0] + matrix[:, 1, 1])
    return angle[:, None, None] * matrix.new_tensor([[0.0, -1.0], [1.0, 0.0]])


def distance(checkout: Path, group: str, first: Tensor, second: Tensor) -> float:
    """LieFlow's Wasserstein-1 distance between two samples of elements."""
    spec = importlib.util.spec_from_file_location(
        "experiment", checkout / "experiments" / f"flow_matching_{group[-1]}d.py"
    )
    experiment = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(experiment)
    return float(experiment.compute_wasserstein_distance(first.double(), second.double()))


def one_case(checkout: Path, name: str, epochs: int) -> dict[str, object]:
    """Train LieFlow, run `find_subgroup` on the same data, and compare both with the truth."""
    import hydra
    from hydra.utils import instantiate

    data, settings, group = CASES[name]
    with hydra.initialize_config_dir(str((checkout / "conf").resolve()), version_base=None):
        overrides = [f"dataset={data}", f"model=flow_matching/{settings}", "device=cpu"]
        chosen = hydra.compose("train", overrides)
    importlib.import_module("lieflow.utils").seed_all(chosen.seed)
    train, test = instantiate(chosen.dataset.train), instantiate(chosen.dataset.test)
    model = instantiate(chosen.model)
    if group == "so2":
        importlib.import_module(type(model).__module__).blogm = planar_logarithm
    optimizer = instantiate(chosen.optimizer, model.parameters())
    loader = torch.utils.data.DataLoader(train, chosen.dataset.batch_size, shuffle=True)
    begun, loss = time.process_time(), float("nan")
    for _ in range(epochs):
        loss = model.train_net(loader, optimizer)["loss"]
    trained = time.process_time() - begun
    _, start, moves = model.eval().sample(test.data, chosen.test.n_steps, return_transform=True)
    begun = time.process_time()
    found = find_subgroup(train.data[:GIVEN], group, seed=chosen.seed)
    searched = time.process_time() - begun
    generator = torch.Generator().manual_seed(chosen.seed)
    truth = test.dist.base_dist.sample((len(test.data),))
    row: dict[str, object] = {"case": name, "seed": chosen.seed}
    row |= {"epochs": epochs, "epochs of its settings": chosen.train.epochs}
    row["LieFlow, loss of the last epoch"] = loss
    row["LieFlow, distance"] = distance(checkout, group, moves.mT @ start, test.transform)
    row["LieFlow, processor seconds"] = round(trained, 1)
    row["here, answer"] = found.answer
    if found.subgroup is not None and not found.reason:
        drawn = found.subgroup.sample(len(test.data), generator)
        row["here, distance"] = distance(checkout, group, drawn, test.transform)
    row["here, processor seconds"] = round(searched, 2)
    row["two true samples, distance"] = distance(checkout, group, truth, test.transform)
    return row


def summarised(rows: list[dict[str, object]]) -> dict[str, object]:
    """The numbers that the documentation shows."""
    summary: dict[str, object] = {}
    for row in rows:
        case, seconds = row["case"], "processor seconds"
        key = f"{case}, LieFlow, {row['epochs']} of its {row['epochs of its settings']} epochs"
        summary[key] = f"{row['LieFlow, distance']:.3f}, {row[f'LieFlow, {seconds}']:.0f} {seconds}"
        mine = f"{row['here, distance']:.3f}" if "here, distance" in row else "no distance"
        mine += f", {row[f'here, {seconds}']} {seconds}"
        summary[f"{case}, here"] = f"{row['here, answer']}, {mine}"
        summary[f"{case}, two true samples"] = f"{row['two true samples, distance']:.3f}"
    return summary


def main() -> None:
    """Run the cases and record them, after each one."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("--cases", nargs="+", default=["C4=1000"], metavar="NAME=EPOCHS")
    given = parser.parse_args()
    torch.set_num_threads(1)
    sys.path.insert(0, str(given.checkout / "src"))
    clock, rows = Clock(), []
    for case in given.cases:
        name, _, epochs = case.partition("=")
        rows.append(one_case(given.checkout, name, int(epochs)))
        settings = {"elements compared": 5000, "sets for find_subgroup": GIVEN}
        record("peer_lieflow", summarised(rows), rows, clock, settings)


if __name__ == "__main__":
    main()
