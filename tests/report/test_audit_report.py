"""The page of an audit: classes and blocks of layers, the weakest first; verdicts of outputs."""

import numpy as np
import torch
from torch import nn

from symmetries.auditing import audit_energies, audit_model
from symmetries.report.audit_report import audit_page
from symmetries.report.audit_words import verdict

X = torch.rand(12, 1, 8, 8, generator=torch.Generator().manual_seed(0))


def sections(result):
    return {section.title: section for section in audit_page(result).sections}


def test_classes_come_weakest_first():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    result = audit_model(net, (X, torch.arange(12) % 4), "c4", layers=(), steps=2, progress=False)
    (table,) = sections(result)["Class by class"].blocks
    shares = [float(row[2].split(" ")[0]) for row in table.rows]
    assert shares == sorted(shares)
    assert len(table.rows) == 4
    assert list(table.header)[-2:] == ["accuracy", "when moved"]


def test_many_layers_are_grouped_by_block():
    """12 blocks of three layers; one block holds a layer that knows absolute positions."""

    class Ramp(nn.Module):
        def forward(self, x):
            return x + torch.linspace(0, 1, x.shape[-1])

    torch.manual_seed(0)
    blocks = [nn.Sequential(nn.Conv2d(1, 1, 1), nn.Tanh(), nn.Identity()) for _ in range(12)]
    blocks[7][2] = Ramp()
    net = nn.Sequential(*blocks, nn.Tanh(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(1, 3))
    result = audit_model(net, X, "c4", steps=2, progress=False)
    by_block, by_layer = sections(result)["Layer by layer"].blocks
    assert by_block.rows[0][:2] == ("7", "3")
    assert by_layer.rows[0][0] == "7.2"
    assert len(by_layer.rows) == 30
    assert len(result.layers) == 40


def test_a_wrong_force_is_not_hidden_by_a_right_energy():
    class Atom:
        positions = np.ones((2, 3))

        def copy(self):
            return Atom()

    def model(atoms):
        return 1.0, np.tile([0.0, 0.0, 1.0], (2, 1))

    result = audit_energies(model, [Atom(), Atom()], samples=4)
    assert result.measures["energy_error"].mean == 0
    assert verdict(result).startswith("No: outputs do not move as they should (error of the forces")
    assert "[eV/Å]" in verdict(result)


def test_what_resampling_hides_cannot_be_told():
    """Noise is blurred by small turns: predictions change, by the turn or by resampling."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 4))
    result = audit_model(net, X, "rotation", range="rotation=5", gradients=False, progress=False)
    assert result.agreement.mean < 0.99
    assert verdict(result).startswith("Cannot be told: outputs change by")
    assert f"{100 * (1 - result.agreement.mean):.1f} % of the predictions change" in verdict(result)
    steady = audit_model(lambda x: net(x) + torch.tensor([9.0, 0, 0, 0]), X, "rotation",
                         range="rotation=5", gradients=False, progress=False)  # fmt: skip
    assert verdict(steady).startswith("Yes, within the error of resampling")


def test_boxes_in_their_places_with_other_classes_are_not_right():
    """The class says on which side of the picture a box stands."""

    def detect(x):
        left = (x[:, 0, :, :4].sum((1, 2)) > x[:, 0, :, 4:].sum((1, 2))).tolist()
        boxes = [torch.tensor([[0.0 if side else 4.0, 2, 4 if side else 8, 6]]) for side in left]
        pairs = zip(boxes, left, strict=True)
        return [{"boxes": box, "labels": torch.tensor([int(side)])} for box, side in pairs]

    result = audit_model(detect, X, "flip_x", progress=False)
    assert result.measures["matched"].mean == 1
    assert verdict(result).startswith("No: outputs do not move as they should (same answer")
    assert "Measured on 12 examples" in str(audit_page(result))
