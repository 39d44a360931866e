"""Data of other packages: which file of which version, its SHA-256 and its licence.

Nothing of it is stored here: the package is installed by the person who runs the benchmark.
"""

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path

PLANETS = {
    "sun": "014e364fe1808e6a4c8d009d6db8cc0e900a53cc9e93f7243a1a45cba0d7eb89",
    "mercury": "4f35e80331483f6e30d5118308987a3e7e6f7fa170ca883e0400bee082871e3f",
    "venus": "6359442a8ba6e60ff31932e3c7d7d5b03d1cc2aa617a97b3b795bf772d892758",
    "earthmoon": "7477af02d2b9ff49f8b9378a8bf2f15199402be9b3cf20596c0d11a19f9e2d7e",
    "mars": "24a0bb6a452b9e3a528c09655277bc030e1ffd4ea6b6ff9c8841a138ed90cb6c",
    "jupiter": "62fa631a4ffbaf853228242d4b37ec8329eef2dd68b4a8953598c064a88a1664",
    "saturn": "0b49d9c33f904e9a40fdaf44b000e4c2c3fa1dcc5f1b7ee96e97549fac5b6870",
    "uranus": "d51915355b63539740d019b3c6076f53f30e4e46e44762a5dc102247cad88cb0",
    "neptune": "88aec9c7ba611bb4eb6bb04697afad573ded219d95d05be8efbc0d3671dea57f",
    "pluto": "b41e0209531771ba68dafc54bf00bb9f29b1e39c780d59314cbb9446d2725c7e",
}


@dataclass(frozen=True)
class PackagedFile:
    """A file below the folder of installed packages."""

    package: str
    path: str
    sha256: str
    licence: str


FILES = {
    "muons": PackagedFile(
        "scikit-hep-testdata==0.2.0",
        "skhep_testdata/data/uproot-Zmumu.root",
        "8290ddc1f2b1f866f30df016558936da27107f7f5b87e574c741f2baab1bad64",
        "BSD 3-clause",
    ),
    "bunny": PackagedFile(
        "pybullet==3.2.7",
        "pybullet_data/bunny.obj",
        "cf22c66f64f5ffec529bc0df1025b72c6b07f1715be2784f51e02a5a4d6e61f5",
        "zlib",
    ),
    "duck": PackagedFile(
        "pybullet==3.2.7",
        "pybullet_data/duck.obj",
        "354cf4615905e4aabb66a8525b41bf271a506dc1bf94ecc2e4abcea48eb0e4bb",
        "zlib",
    ),
} | {
    name: PackagedFile("de421==2008.1", f"de421/jpl-{name}.npy", digest, "MIT")
    for name, digest in PLANETS.items()
}


def packaged_file(name: str) -> Path:
    """The path of an installed file, after its SHA-256 has been checked.

    Args:
        name: one of ``FILES``.
    """
    known = FILES[name]
    places = [Path(folder) / known.path for folder in sys.path]
    found = next((place for place in places if place.is_file()), None)
    if found is None:
        raise SystemExit(f"{known.path} is not there: pip install {known.package}")
    digest = hashlib.sha256(found.read_bytes()).hexdigest()
    if digest != known.sha256:
        raise SystemExit(f"{known.path}: expected SHA-256 {known.sha256}, got {digest}")
    return found
