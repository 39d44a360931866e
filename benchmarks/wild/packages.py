"""Models that are more than a file: their packages are imported, and their code runs."""

import importlib
import importlib.metadata
import math
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from inputs import pages, tones
from torch import Tensor, nn

from symmetries.actions import SignalAction
from symmetries.auditing import AuditResult, audit_energies, audit_model
from symmetries.groups import Signal

RATE = 16000
SIDE = 96  # of pictures, for two cores


@dataclass(frozen=True)
class Use:
    """One model of a package.

    Args:
        package: on the index.
        model: its name there.
        question: what is asked.
        audit: makes the model and audits it.
    """

    package: str
    model: str
    question: str
    audit: Callable[[], AuditResult]


def licence(package: str) -> str:
    """What the package says about its licence."""
    about = importlib.metadata.metadata(package)
    known = [c.rpartition(":")[2].strip() for c in about.get_all("Classifier") or [] if "Lic" in c]
    lines = (about.get("License-Expression") or about.get("License") or "").strip().splitlines()
    return (lines[0] if lines else known[0] if known else "not said")[:60]


def network(build: Callable[[], nn.Module]) -> AuditResult:
    """A classifier of pictures with random weights, under shifts of up to four pixels."""
    torch.manual_seed(0)
    model = build().to("cuda" if torch.cuda.is_available() else "cpu")
    options: dict[str, Any] = {"range": "shift=4px", "samples": 4, "closely": 2, "steps": 4}
    return audit_model(model, pages(8, SIDE), "translation", progress=False, **options)


def torchvision_resnet() -> nn.Module:
    """ResNet-18 as torchvision has it."""
    from torchvision.models import resnet18

    return resnet18(weights=None)


def timm_model(name: str) -> nn.Module:
    """A network of timm, without its trained weights."""
    import timm

    size = {"img_size": SIDE} if name.startswith("vit") else {}
    return timm.create_model(name, pretrained=False, **size)


def hugging_face_vit() -> nn.Module:
    """A small vision transformer, from a configuration; its output has ``.logits``."""
    from transformers import ViTConfig, ViTForImageClassification

    sizes = {"hidden_size": 192, "num_attention_heads": 3, "intermediate_size": 768}
    sizes |= {"num_hidden_layers": 3, "image_size": SIDE}
    return ViTForImageClassification(ViTConfig(num_labels=1000, **sizes))


def molecules(calculator: Callable[[], Any], cell: float | None) -> AuditResult:
    """Energies and forces of the molecules of ASE's g2 collection, under rotations.

    Args:
        calculator: makes the calculator of ASE.
        cell: edge of a periodic cube around each molecule, for models of crystals; it turns along.
    """
    from ase.collections import g2

    calc = calculator()

    def adapter(atoms: Any) -> tuple[float, Any]:  # noqa: ANN401 - of ASE
        atoms.calc = calc
        return atoms.get_potential_energy(), atoms.get_forces()

    structures = [g2[name].copy() for name in g2.names if len(g2[name]) > 1]
    for atoms in structures if cell else []:
        atoms.set_cell([cell] * 3)
        atoms.center()
        atoms.pbc = True
    return audit_energies(adapter, structures, "so3", samples=8)


def sevennet() -> Any:  # noqa: ANN401 - of ASE
    """SevenNet-0, whose weights are in the package."""
    from sevenn.calculator import SevenNetCalculator

    return SevenNetCalculator("7net-0", device="cpu")


def chgnet() -> Any:  # noqa: ANN401 - of ASE
    """CHGNet 0.3.0, whose weights are in the package."""
    from chgnet.model.dynamics import CHGNetCalculator

    return CHGNetCalculator(use_device="cpu", verbose=False)


def pitch() -> AuditResult:
    """A tone that is stretched in time by f sounds deeper by 12 log2 f semitones."""
    model = _pesto()

    def middle(x: Tensor) -> Tensor:
        semitones = model(x[:, 0], sr=RATE)[0]
        return semitones[:, semitones.shape[1] // 2, None]

    def deeper(element: Tensor, semitones: Tensor) -> Tensor:
        return semitones - 12 * torch.log2(element[..., :1])

    action = SignalAction(Signal("time_scale"), interpolation="bicubic", padding="reflect")
    octave = math.log(2) / 2
    options: dict[str, Any] = {"half_width": octave, "samples": 4, "batch_size": 12}
    found = audit_model(
        middle, tones(12, RATE // 2), action, output=deeper, progress=False, **options
    )
    return found.model_copy(update={"units": {"absolute_error": "semitones"}})


def _pesto() -> nn.Module:
    """The model without the package's reader of files, which needs torchaudio."""
    found = importlib.util.find_spec("pesto")
    if found is None or found.submodule_search_locations is None:
        raise ImportError("pesto is not installed")
    bare = types.ModuleType("pesto")
    bare.__path__ = list(found.submodule_search_locations)
    sys.modules["pesto"] = bare
    model: nn.Module = importlib.import_module("pesto.loader").load_model(
        str(Path(bare.__path__[0]) / "weights" / "mir-1k_g7.ckpt"), 10.0, sampling_rate=RATE
    )
    return model


SHIFTED = "Do random weights say the same of a page that moves by up to 4 pixels?"
TURNED = "Does the energy stay, and do forces turn, when a molecule is turned?"
USES = [
    Use("sevenn", "SevenNet-0", TURNED, lambda: molecules(sevennet, None)),
    Use("chgnet", "CHGNet 0.3.0", TURNED, lambda: molecules(chgnet, 30.0)),
    Use("pesto-pitch", "mir-1k_g7", "Does the pitch follow a tone that is transposed?", pitch),
    Use("transformers", "ViT (3 layers)", SHIFTED, lambda: network(hugging_face_vit)),
    Use("torchvision", "resnet18", SHIFTED, lambda: network(torchvision_resnet)),
    *(
        Use("timm", name, SHIFTED, lambda name=name: network(lambda: timm_model(name)))
        for name in ("vit_tiny_patch16_224", "convnext_atto")
    ),
]
