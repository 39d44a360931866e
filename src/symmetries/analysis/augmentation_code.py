"""Python code of an augmentation for this library, torchvision, albumentations and kornia.

One of several shears and changes of light is drawn for each picture; kornia draws one for each
batch, and albumentations has no change of sharpness of this kind.
"""

import math

from symmetries.analysis.augmentation_laws import MOTIONS, MOVES, SHEAR, SMALLEST, Law


def code_for(library: str, laws: dict[str, Law], fill: float | None, size: tuple[int, int]) -> str:
    """Ready Python: ``transform`` is safe for all classes; ``by_class`` and ``others`` go further.

    Args:
        library: "symmetries", "torchvision", "albumentations" or "kornia".
        laws: by name of the class.
        fill: value around moved pictures; None reflects them at their edges.
        size: (height, width) of the pictures.
    """
    makers = {"symmetries": _ours, "torchvision": _torchvision}
    make = makers | {"albumentations": _albumentations, "kornia": _kornia}
    least, most = (
        Law(*(end(getattr(law, name) for law in laws.values()) for name in MOVES))
        for end in (min, max)
    )
    head, one = make[library](least, fill, size)
    lines = [*head, "", "# Safe for every class.", f"transform = {one}"]
    if least != most:
        wide, widest = make[library](most, fill, size)
        lines = [*wide, *lines[len(head) :], "", "# As far as the labels of each class allow."]
        lines += [f"others = {widest}", "by_class = {"]
        lines += [
            f"    {name!r}: {make[library](law, fill, size)[1]},"
            for name, law in laws.items()
            if law != most
        ]
        lines += ["}"]
    return "\n".join(lines) + "\n"


Code = tuple[list[str], str]


def _ours(law: Law, fill: float | None, size: tuple[int, int]) -> Code:
    head = ["from symmetries.analysis.augmentation_laws import Augmentation, Law"]
    amounts = ", ".join(f"{name}={amount:.6g}" for name, amount in law.moves().items())
    return head, f"Augmentation(Law({amounts}), fill={_number(fill)})"


def _torchvision(law: Law, fill: float | None, size: tuple[int, int]) -> Code:
    head = ["import torch", "from torchvision.transforms import v2"]
    parts = [f"v2.RandomHorizontalFlip({law.flip_x:g})"] if law.flip_x else []
    if MOTIONS & law.moves().keys():
        how = f"scale=({1 / law.zoom:.6g}, {law.zoom:.6g})"
        share = law.shift / 3 if fill is None else law.shift  # of a picture padded by its sides
        how = f"{law.rotation:.6g}, translate=({share:.6g}, {share:.6g}), {how}"
        parts.append(_affine_of_torchvision(how, fill, size))
    if law.mix:
        parts.append(_one_of_torchvision(law, fill, size))
    if law.erase:
        how = f"scale=({SMALLEST:g}, {law.erase:.6g}), ratio=(1.0, 1.0), value={fill or 0:.6g}"
        parts.append(f"v2.RandomErasing(0.5, {how})")
    return head, f"v2.Compose([{', '.join(parts) or 'v2.Identity()'}])"


def _albumentations(law: Law, fill: float | None, size: tuple[int, int]) -> Code:
    head = ["import albumentations as A", "import cv2"]
    parts = [f"A.HorizontalFlip(p={law.flip_x:g})"] if law.flip_x else []
    if MOTIONS & law.moves().keys():
        border = "cv2.BORDER_REFLECT" if fill is None else "cv2.BORDER_CONSTANT"
        shift = f"(-{law.shift:.6g}, {law.shift:.6g})"
        parts.append(
            f"A.Affine(rotate=(-{law.rotation:.6g}, {law.rotation:.6g}), "
            f"scale=({1 / law.zoom:.6g}, {law.zoom:.6g}), keep_ratio=True, "
            f"translate_percent={{'x': {shift}, 'y': {shift}}}, "
            f"border_mode={border}, fill={_number(fill or 0.0)}, p=1.0)"
        )
    if law.mix:
        parts.append(_one_of_albumentations(law, fill))
    if law.erase:
        how = f"scale=({SMALLEST:g}, {law.erase:.6g}), ratio=(1.0, 1.0), fill={fill or 0:.6g}"
        parts.append(f"A.Erasing({how}, p=0.5)")
    return head, f"A.Compose([{', '.join(parts) or 'A.NoOp()'}])"


def _kornia(law: Law, fill: float | None, size: tuple[int, int]) -> Code:
    head = ["import kornia.augmentation as K", "from torch import nn"]
    parts = [f"K.RandomHorizontalFlip(p={law.flip_x:g})"] if law.flip_x else []
    if MOTIONS & law.moves().keys():
        how = "padding_mode='reflection'" if fill is None else "padding_mode='zeros'"
        one = (
            f"K.RandomAffine({law.rotation:.6g}, translate=({law.shift:.6g}, {law.shift:.6g}), "
            f"scale=({1 / law.zoom:.6g}, {law.zoom:.6g}), {how}, p=1.0)"
        )
        if fill:
            one = f"OnBackground({one}, {fill:.6g})"
        parts.append(one)
    if law.mix:
        parts.append(_one_of_kornia(law, fill))
    if law.erase:
        how = f"scale=({SMALLEST:g}, {law.erase:.6g}), ratio=(1.0, 1.0), value={fill or 0:.6g}"
        parts.append(f"K.RandomErasing({how}, p=0.5)")
    if fill:  # kornia fills with zeros: moved on a background of zero
        head = [*head, "", "", *_SHIFTED.splitlines(), ""]
    return head, f"nn.Sequential({', '.join(parts) or 'nn.Identity()'})"


def _slope(law: Law) -> str:
    """The largest shear, as an angle."""
    return f"{math.degrees(math.atan(SHEAR * law.mix)):.6g}"


def _ends(law: Law) -> tuple[str, str]:
    """The range of factors of brightness, contrast, saturation and sharpness."""
    return f"({1 - law.mix:.6g}, {1 + law.mix:.6g})", f"{8 - round(6 * law.mix)}"


def _one_of_torchvision(law: Law, fill: float | None, size: tuple[int, int]) -> str:
    most, (ends, bits) = _slope(law), _ends(law)
    shears = (f"(-{most}, {most})", f"(0, 0, -{most}, {most})")
    low = f"{1 - law.mix:.6g}"
    several = (
        "v2.Identity()",
        *(_affine_of_torchvision(f"0, shear={one}", fill, size) for one in shears),
        *(f"v2.ColorJitter({n}={ends})" for n in ("brightness", "contrast", "saturation")),
        f"v2.RandomChoice([v2.RandomAdjustSharpness(a, 1) for a in {_steps(law)}])",
        f"v2.RandomChoice([v2.RandomPosterize(bits, 1) for bits in range({bits}, 9)])",
        f"v2.RandomChoice([v2.RandomSolarize({low} + k * {law.mix / 8:.6g}, 1) for k in range(9)])",
        "v2.RandomAutocontrast(1)",
        "v2.RandomEqualize(1)",
    )
    return f"v2.RandomChoice([{', '.join(several)}])"


def _affine_of_torchvision(how: str, fill: float | None, size: tuple[int, int]) -> str:
    """An affine transform; without a fill the picture is reflected, moved, and cut out again."""
    how += ", interpolation=v2.InterpolationMode.BILINEAR"
    if fill is not None:
        return f"v2.RandomAffine({how}, fill={fill:.6g})"
    pad = [size[1] - 1, size[0] - 1]
    padded = f"v2.Pad({pad}, padding_mode='reflect'), v2.RandomAffine({how})"
    return f"v2.Compose([{padded}, v2.CenterCrop({list(size)})])"


def _steps(law: Law) -> str:
    """Nine factors about 1."""
    return "[" + ", ".join(f"{1 + law.mix * (k - 4) / 4:.4g}" for k in range(9)) + "]"


def _one_of_albumentations(law: Law, fill: float | None) -> str:
    most, (ends, bits) = _slope(law), _ends(law)
    border = "cv2.BORDER_REFLECT" if fill is None else "cv2.BORDER_CONSTANT"
    how = f"border_mode={border}, fill={_number(fill or 0.0)}, p=1.0"
    factors = {name: "(1, 1)" for name in ("brightness", "contrast", "saturation")}
    lit = [", ".join(f"{n}={r}" for n, r in (factors | {k: ends}).items()) for k in factors]
    several = (
        "A.NoOp(p=1.0)",
        f"A.Affine(shear={{'x': (-{most}, {most}), 'y': (0, 0)}}, {how})",
        f"A.Affine(shear={{'x': (0, 0), 'y': (-{most}, {most})}}, {how})",
        *(f"A.ColorJitter({one}, hue=(0, 0), p=1.0)" for one in lit),
        f"A.Posterize(num_bits=({bits}, 8), p=1.0)",
        f"A.Solarize(threshold_range=({1 - law.mix:.6g}, 1), p=1.0)",
        "A.AutoContrast(p=1.0)",
        "A.Equalize(p=1.0)",
    )
    return f"A.OneOf([{', '.join(several)}], p=1.0)"


def _one_of_kornia(law: Law, fill: float | None) -> str:
    most, (ends, bits) = _slope(law), _ends(law)
    padding = "reflection" if fill is None else "zeros"
    shears = (f"(-{most}, {most})", f"(0.0, 0.0, -{most}, {most})")
    sheared = [f"K.RandomAffine(0.0, shear={s}, padding_mode='{padding}', p=1.0)" for s in shears]
    if fill:
        sheared = [f"OnBackground({one}, {fill:.6g})" for one in sheared]
    several = (
        "nn.Identity()",
        *sheared,
        *(f"K.ColorJitter({n}={ends}, p=1.0)" for n in ("brightness", "contrast", "saturation")),
        f"K.RandomSharpness({ends}, p=1.0)",
        f"K.RandomPosterize(({bits}.0, 8.0), p=1.0)",
        f"K.RandomSolarize(({1 - law.mix:.6g}, 1.0), 0.0, p=1.0)",
        "K.RandomAutoContrast(p=1.0)",
        "K.RandomEqualize(p=1.0)",
    )
    return f"K.ImageSequential({', '.join(several)}, random_apply=1)"


_SHIFTED = '''class OnBackground(nn.Module):
    """A transform that fills with zeros, for pictures on another background."""

    def __init__(self, transform, fill):
        super().__init__()
        self.transform, self.fill = transform, fill

    def forward(self, x):
        return self.transform(x - self.fill) + self.fill
'''


def _number(value: float | None) -> str:
    return "None" if value is None else f"{value:.6g}"
