"""2,304 pairs of muons: which 4 x 4 matrix, acting on both, leaves the mass of a pair as it is?

The file ``uproot-Zmumu.root`` of the package scikit-hep-testdata 0.2.0 (BSD licence) holds energies
and momenta of both muons and the mass M of the pair, which was computed from them, so that the
label has no noise. Its rows repeat 500 events, which are the units. Both muons are on their mass
shell, E^2 - p^2 = m^2: a surface, along which generators have to move.

Run with: python -m benchmarks.generators.muons (needs scikit-hep-testdata 0.2.0 and uproot)
"""

import argparse
import itertools

import numpy as np
from benchmarks.generators.packaged import FILES, packaged_file
from benchmarks.generators.records import Clock, record

import symmetries

COLUMNS = [name + number for number in "12" for name in ("E", "px", "py", "pz")]


def main() -> None:
    """Search and record."""
    import uproot

    argparse.ArgumentParser(description=__doc__.partition("\n")[0]).parse_args()
    path = packaged_file("muons")
    events = uproot.open(path)["events"].arrays(library="np")
    x = np.stack([events[name] for name in COLUMNS], 1)
    runs = np.stack([events["Run"], events["Event"]], 1)
    units = np.unique(runs, axis=0, return_inverse=True)[1].reshape(-1)
    clock, rows = Clock(), []
    for label, fields in itertools.product(("M", "M^2"), ("linear", "affine")):
        y = events["M"] ** 2 if label == "M^2" else events["M"]
        found = symmetries.generators(x, y, fields=fields, vectors=2, units=units)
        rows.append(
            {
                "label": label,
                "fields": fields,
                "answer": found.answer,
                "dimension": list(found.dimension),
                "source": found.source,
                "unexplained": found.fit.unexplained,
                "intervals": [(g.low, g.high) for g in found.generators],
                "defect of the next field": found.spectrum[len(found.generators)].defect,
            }
        )
        print(rows[-1], flush=True)
    summary = {}
    for row in rows:
        high = max((high for _, high in row["intervals"]), default=None)
        words = f"{row['answer']}, {row['source']}"
        words += "" if high is None else f", defects from 0 to at most {high:.1g}"
        summary[f"{row['label']}, {row['fields']}"] = words
    summary |= {"pairs": len(x), "events": int(units.max()) + 1}
    settings = {"epsilon": 0.01, "level": 0.95, "seed": 0, "sha256": FILES["muons"].sha256}
    record("muons", summary, rows, clock, settings)


if __name__ == "__main__":
    main()
