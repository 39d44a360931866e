"""2,304 pairs of muons: which 4 x 4 matrix, acting on both, leaves the mass of a pair as it is?

The file ``uproot-Zmumu.root`` of the package scikit-hep-testdata 0.2.0 (BSD licence) holds energies
and momenta of both muons and the mass M of the pair, which was computed from them, so that the
label has no noise. Its rows repeat 500 events, which are the units. Needs ``uproot``.

Run with: python -m benchmarks.generators.muons FILE
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np
from benchmarks.generators.records import Clock, record

import symmetries

SHA256 = "8290ddc1f2b1f866f30df016558936da27107f7f5b87e574c741f2baab1bad64"
COLUMNS = [name + number for number in "12" for name in ("E", "px", "py", "pz")]


def main() -> None:
    """Search and record."""
    import uproot

    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("file", type=Path)
    path = parser.parse_args().file
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    if digest != SHA256:
        raise SystemExit(f"{path}: expected SHA-256 {SHA256}, got {digest}")
    events = uproot.open(path)["events"].arrays(library="np")
    x = np.stack([events[name] for name in COLUMNS], 1)
    runs = np.stack([events["Run"], events["Event"]], 1)
    units = np.unique(runs, axis=0, return_inverse=True)[1].reshape(-1)
    clock, rows = Clock(), []
    for label, fields in (("M^2", "linear"), ("M^2", "affine"), ("M", "linear")):
        y = events["M"] ** 2 if label == "M^2" else events["M"]
        found = symmetries.generators(x, y, fields=fields, vectors=2, units=units)
        rows.append(
            {
                "label": label,
                "fields": fields,
                "answer": found.answer,
                "dimension": list(found.dimension),
                "degree": found.fit.degree,
                "unexplained": found.fit.unexplained,
                "largest upper limit": max((g.high for g in found.generators), default=None),
                "defect of the next field": found.spectrum[len(found.generators)].defect,
            }
        )
        print(rows[-1], flush=True)
    summary = {f"{row['label']}, {row['fields']}": row["answer"] for row in rows}
    summary |= {"pairs": len(x), "events": int(units.max()) + 1}
    settings = {"epsilon": 0.02, "level": 0.95, "seed": 0, "sha256": SHA256}
    record("muons", summary, rows, clock, settings)


if __name__ == "__main__":
    main()
