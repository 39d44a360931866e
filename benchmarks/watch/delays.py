"""Pictures until an alarm after a change: ``watch`` against online detectors of alibi-detect.

``python -m benchmarks.watch.delays mnist --folder DATA`` needs alibi-detect (with torch) beside us.
All detectors have the same reference and the same expected number of pictures until a
false alarm, ``--ert``. Theirs (LSDD and MMD on pixels, and on 16 principal components) is set by
simulation, in windows of 25 pictures. Ours sums the evidence of all times at which the change may
have begun (Shiryaev and Roberts): with K scores, an alarm at 2 K ert has at least that expectation,
whatever the pictures are. ``watch`` itself is stricter: it has no false alarm at all in 99 % of
streams, however long; its delay is shown, too. Streams change after 200 pictures; delays below 1
are false alarms.
"""

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import torch
from alibi_detect.cd import LSDDDriftOnline, MMDDriftOnline
from benchmarks.common import environment
from benchmarks.watch.run import FOLDER, cases

from symmetries.data import load
from symmetries.monitoring import ExchangeabilityTest, Watcher
from symmetries.monitoring.eprocess import log_bets
from symmetries.monitoring.watcher import _bins

BEFORE, AFTER = 200, 500  # pictures of a stream
WINDOW, BOOTSTRAPS, COMPONENTS = 25, 2500, 16
CHANGES = ("turn 7", "turn -12", "shift right", "zoom in", "darker", "blurred")


class Restarting(ExchangeabilityTest):
    """The sum over all beginnings of the evidence, for a given expected time to a false alarm."""

    def detects(self, bins: Any, ert: float) -> bool:  # noqa: ANN401 - (K,) whole numbers
        """Take the next item; whether there is an alarm."""
        bets = log_bets(self.p_values(bins))
        self.log_wealth = bets + np.logaddexp(self.log_wealth, 0.0)
        level = np.logaddexp.reduce(self.log_wealth, 1) - math.log(bets.shape[1])
        return bool(level.max() >= math.log(2 * len(bins) * ert))


def main() -> None:
    """Run all detectors on the same streams."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--streams", type=int, default=10)
    parser.add_argument("--reference", type=int, default=1000)
    parser.add_argument("--ert", type=float, default=1000.0)
    parser.add_argument("--out", type=Path, default=FOLDER)
    given = parser.parse_args()
    data = load(given.data, folder=given.folder).images
    data = data[torch.randperm(len(data), generator=torch.Generator().manual_seed(0))]
    reference, rest = data[: given.reference], data[given.reference :]
    watcher = Watcher.fit(reference)
    held_out = reference[torch.randperm(len(reference), generator=torch.Generator().manual_seed(0))]
    held_out = held_out[len(reference) - len(reference) // 2 :]
    with torch.no_grad():
        known = _bins(watcher.reader.scores(watcher.reader.features(held_out)), watcher.edges)
    flat = reference.flatten(1).numpy()
    mean = flat.mean(0)
    axes = np.linalg.svd(flat - mean, full_matrices=False)[2][:COMPONENTS].T
    views: dict[str, Any] = {
        "pixels": lambda x: x.flatten(1).numpy(),
        "components": lambda x: (x.flatten(1).numpy() - mean) @ axes,
    }
    np.random.seed(0)  # noqa: NPY002 - theirs
    torch.manual_seed(0)
    how: dict[str, Any] = {"ert": given.ert, "window_size": WINDOW, "n_bootstraps": BOOTSTRAPS}
    how |= {"backend": "pytorch", "device": "cpu", "verbose": False}
    theirs = {
        f"{kind.__name__}, {name}": (kind(view(reference), **how), view)
        for kind in (LSDDDriftOnline, MMDDriftOnline)
        for name, view in views.items()
    }
    every = cases(max(data.shape[-2:]), data.shape[1])
    found: dict[str, dict[str, list[int]]] = {}
    for case in (*CHANGES, "none"):
        rows: dict[str, list[int]] = {}
        for stream in range(given.streams):
            chosen = torch.randperm(len(rest), generator=torch.Generator().manual_seed(stream))
            x = rest[chosen[: BEFORE + AFTER]]
            if case != "none":
                x = torch.cat((x[:BEFORE], every[case][0](x[BEFORE:])))
            with torch.no_grad():
                bins = _bins(watcher.reader.scores(watcher.reader.features(x)), watcher.edges)
            ours = Restarting(known, watcher.test.counts.shape[1], seed=stream)
            rows.setdefault("e-detector of equal run length", []).append(
                first([ours.detects(row, given.ert) for row in bins])
            )
            strict = ExchangeabilityTest(known, watcher.test.counts.shape[1], seed=stream)
            alarms = []
            for row in bins:
                strict.update(row)
                alarms.append(strict.alarm)
            rows.setdefault("watch, 1 % for ever", []).append(first(alarms))
            for name, (detector, view) in theirs.items():
                detector.reset_state()
                rows.setdefault(name, []).append(until(detector, view(x)))
        found[case] = rows
        late = {name: [v for v in values if v > 0] or [0] for name, values in rows.items()}
        print(case, {name: float(np.mean(values)) for name, values in late.items()}, flush=True)
        result = {"name": "watch-delays", "data": given.data, **environment(), "ert": given.ert}
        result |= {"window": WINDOW, "before": BEFORE, "after": AFTER, "rows": found}
        given.out.mkdir(parents=True, exist_ok=True)
        (given.out / f"delays-{given.data}.json").write_text(json.dumps(result, indent=1) + "\n")


def first(alarms: list[bool]) -> int:
    """Pictures from the change to the first alarm; one more than all if there is none."""
    return (alarms.index(True) if True in alarms else len(alarms)) + 1 - BEFORE


def until(detector: Any, rows: Any) -> int:  # noqa: ANN401 - of alibi-detect
    """The same for one of theirs."""
    for number, row in enumerate(rows, 1):
        if detector.predict(row)["data"]["is_drift"]:
            return number - BEFORE
    return len(rows) + 1 - BEFORE


if __name__ == "__main__":
    main()
