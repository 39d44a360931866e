"""What a symmetry model is told, and three sets of answers: quick, default, paper."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from symmetries._validation.checks import (
    check_choice,
    check_flag,
    check_number,
    check_whole,
    invalid,
    short,
    wrong_type,
)
from symmetries.nn.features import NETWORKS, Network
from symmetries.ops.warp import INTERPOLATIONS, Interpolation
from symmetries.training import TrainConfig
from symmetries.training.recipe import (
    PlainData,
    adamw_config,
    check_recipe,
    check_sizes,
    chosen,
)

# How far random transformations go unless told otherwise: the whole circle, and what keeps a
# picture that fills its frame inside it (Allingham et al. 2024, appendix C).
MOST = 10**6  # of samples, layers, units
MOST_VARIETY = 0.45  # 1 + V must have an inverse
USUAL_BOUNDS = {
    "shift_x": 0.25,
    "shift_y": 0.25,
    "scale_x": 0.25,
    "scale_y": 0.25,
    "zoom": 0.25,
    "shear": 0.25,
    "saturation": 2.301,
    "value": 0.51,
}


@dataclass(frozen=True)
class Stage:
    """One of the two trainings.

    Args:
        steps: of the optimiser.
        batch_size: images per step.
        lr: peak learning rate.
        warmup: share of the steps in which the rate rises.
        final: the last rate as a share of ``lr``.
        clip: largest norm of the gradient.
        weight_decay: of AdamW.
    """

    steps: int = 60_000
    batch_size: int = 512
    lr: float = 3e-4
    warmup: float = 0.2
    final: float = 1e-3
    clip: float = 10.0
    weight_decay: float = 1e-4

    def __post_init__(self) -> None:
        check_recipe(self)
        for name in ("warmup", "final"):
            check_number(getattr(self, name), name, 0, 1)

    def train_config(self, **run: Any) -> TrainConfig:  # noqa: ANN401 - fields of TrainConfig
        """For the training loop; ``run`` are further fields, such as the seed and the folder."""
        return adamw_config(self, round(self.warmup * self.steps), **run)


@dataclass(frozen=True)
class SymmetryConfig(PlainData):
    """Networks and objectives of a symmetry model.

    Sizes, steps and rates are the paper's for MNIST; the objective is ours ("circle", alignment,
    settling, held-out images). ``PRESETS["paper"]`` has the paper's.

    Args:
        network: feature extractors: "mlp", or "cnn" for larger images.
        widths: hidden layers of the inference network.
        sampled: add noise with a learned scale to eta while training, q(eta | x); otherwise f(x).
        squash: how eta is kept near its bounds b: "scale", b times the output, or "tanh".
        angles: "circle", an angle is the direction of a predicted vector, so that f can follow a
            full turn without a jump; "line", a number like the others (the paper's).
        moments: what of the picture's moments f is given: "centre", it sees the picture moved to
            its centre of mass (of what differs from the background) and adds that to its shifts;
            "size", scaled to one size, too, for families that can zoom or know no scales; or "none"
            (the paper's). Shifts and sizes then need not be learned. For families with both shifts,
            and pictures on a plain background.
        pinned: with ``moments``, f adds nothing to the centre of mass: prototypes have theirs in
            the middle of the frame.
        loss: "symmetric" compares two random versions of an image, "one-sided" the image with
            one; the latter where transformations lose much of the picture.
        samples: random transformations per image and step, averaged.
        invertibility: weight of the loss that keeps the way to the prototype and back lossless.
        alignment: weight, at the start, of the loss that compares transformations instead of
            pictures; it guides training past local minima, such as a half turn, and is no part of
            the paper's.
        turns: alignment forgives quarter turns that leave a picture as it is; for shapes with such
            symmetries (squares, ellipses), which f otherwise leaves turned as they are.
        alignment_share: share of the steps in which that weight falls to 0.
        settling: weight, at the end, of the loss that makes f find small transformations of
            prototypes, so that iterated prototypes come to rest; it is no part of the paper's.
        settling_form: of that loss: the "norm" of misses, or their "squares", which count small
            misses less and a few large ones (a digit upside down) more; with these a weight of 1
            and a range of 0.25 were used.
        settling_range: how far from prototypes f is asked, as a share of the bounds.
        settling_start: share of the steps after which that weight begins to grow from 0.
        centring: weight of the loss that puts prototypes into the middle of the frame and, where
            the family has scales in both directions, gives them one size. Any prototype of an orbit
            is as good as another, and this chooses one that does not lie at the frame's edge. For
            families of affine transformations with both shifts; 0 turns it off (the paper's).
        variety: largest entry of random matrices V that change every image, x to T_{1 + V} x,
            before f learns from it, so that f meets more orbits than there are images; 0 turns it
            off (the paper's). The second training sees the images as they are.
        blur: largest standard deviation, in pixels, of the blur at the start of training.
        blur_share: share of the steps in which the blur falls to 0.
        interpolation: of all resampling.
        features: hidden layers of the generative network's feature extractor.
        feature_dropout: after each of them.
        base: hidden layers that predict mean and scale of the flow's base.
        layers: of the flow.
        bins: of its splines.
        conditioner: width of its conditioners.
        conditioner_dropout: in them.
        circular: circular splines for "exact": angles that close up exactly (rotation alone, hue);
            "all" angles; or "none" (the paper's).
        prototype_noise: standard deviation of the noise on prototypes that p(eta | x_hat) learns
            from, in those of pixels. It hides the pixel grid that an image was drawn on, which
            turns with its prototype and would tell how far; 0 turns it off (the paper's).
        consistency: weight of the mean pairwise difference of log p(eta | x_hat) between
            prototypes of one image.
        holdout: share of the images kept back in the second training; the weights that explain
            those best are kept. Without it p(eta | x_hat) learns small data sets by heart.
        products: of matrices in networks' wide layers while training: "tf32" on CUDA; "bf16", which
            is faster and rounds more, on CUDA and on processors with AMX; "auto", the first on
            CUDA and the second on such processors. Parameters and everything else are float32.
        inference: training of the inference network.
        generative: training of the generative network.
    """

    network: Network = "mlp"
    widths: tuple[int, ...] = (2048, 1024, 512, 256)
    sampled: bool = True
    squash: Literal["scale", "tanh"] = "scale"
    angles: Literal["circle", "line"] = "circle"
    moments: Literal["none", "centre", "size"] = "none"
    pinned: bool = False
    loss: Literal["symmetric", "one-sided"] = "symmetric"
    samples: int = 5
    invertibility: float = 0.1
    alignment: float = 1.0
    turns: bool = False
    alignment_share: float = 1.0
    settling: float = 0.2
    settling_form: Literal["squares", "norm"] = "norm"
    settling_range: float = 0.05
    settling_start: float = 0.0
    centring: float = 0.0
    variety: float = 0.0
    blur: float = 0.0
    blur_share: float = 0.01
    interpolation: Interpolation = "bilinear"
    features: tuple[int, ...] = (1024, 512, 512)
    feature_dropout: float = 0.2
    base: tuple[int, ...] = (256, 256)
    layers: int = 6
    bins: int = 6
    conditioner: int = 256
    conditioner_dropout: float = 0.1
    circular: Literal["exact", "all", "none"] = "exact"
    prototype_noise: float = 0.5
    consistency: float = 0.0
    holdout: float = 0.1
    products: Literal["auto", "tf32", "bf16"] = "auto"
    inference: Stage = field(default_factory=Stage)
    generative: Stage = field(default_factory=lambda: Stage(lr=3e-3, final=0.03, clip=2.0))

    def __post_init__(self) -> None:
        check_choice(self.network, NETWORKS, "network")
        check_choice(self.squash, ("scale", "tanh"), "squash")
        check_choice(self.angles, ("circle", "line"), "angles")
        check_choice(self.moments, ("none", "centre", "size"), "moments")
        check_choice(self.loss, ("symmetric", "one-sided"), "loss")
        check_choice(self.interpolation, INTERPOLATIONS, "interpolation")
        check_choice(self.circular, ("exact", "all", "none"), "circular")
        check_choice(self.products, ("auto", "tf32", "bf16"), "products")
        for name in ("samples", "layers", "bins", "conditioner"):
            check_whole(getattr(self, name), name, most=MOST)
        check_flag(self.sampled, "sampled")
        for name in ("widths", "features", "base"):
            check_sizes(getattr(self, name), name)
        shares = ("alignment_share", "blur_share", "settling_range", "settling_start")
        for name in (*shares, "feature_dropout", "conditioner_dropout"):
            check_number(getattr(self, name), name, 0, 1)
        for name in ("inference", "generative"):
            if not isinstance(getattr(self, name), Stage):
                raise wrong_type(name, "a Stage", getattr(self, name), "try Stage(steps=1000)")
        check_choice(self.settling_form, ("squares", "norm"), "settling_form")
        if not 0 <= self.settling_start < 1:
            got = short(self.settling_start)
            raise invalid("settling_start", "a share in [0, 1)", got, "0 begins at once")
        weights = ("invertibility", "alignment", "settling", "centring", "blur", "consistency")
        for name in (*weights, "prototype_noise"):
            check_number(getattr(self, name), name, least=0)
        check_number(self.variety, "variety", 0, MOST_VARIETY)
        check_flag(self.turns, "turns")
        check_flag(self.pinned, "pinned")
        if self.pinned and self.moments == "none":
            remedy = 'moments="centre" moves pictures to their centre of mass'
            raise invalid("pinned", "with moments", "moments='none'", remedy)
        if not isinstance(self.holdout, int | float) or not 0 <= self.holdout < 1:
            got = short(self.holdout)
            raise invalid("holdout", "a share in [0, 1)", got, "0 keeps nothing back")

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """What :meth:`to_dict` gave, also after JSON made lists of its tuples."""
        stages = {name: Stage(**data[name]) for name in ("inference", "generative")}
        return super().from_dict({**data, **stages})


PRESETS = {
    # Small images on a CPU: about a minute.
    "quick": SymmetryConfig(
        widths=(512, 256),
        samples=2,
        features=(128, 64),
        feature_dropout=0.2,
        base=(64,),
        layers=3,
        conditioner=64,
        inference=Stage(steps=2500, batch_size=128, lr=1e-3, warmup=0.1),
        generative=Stage(steps=1200, batch_size=128, lr=2e-3, warmup=0.1, final=0.03, clip=2.0),
    ),
    # A real data set on a GPU in minutes, or on a CPU over night.
    "default": SymmetryConfig(
        moments="centre",
        widths=(1024, 512, 256),
        samples=3,
        features=(512, 256),
        inference=Stage(steps=15_000, lr=5e-4, warmup=0.1),
        generative=Stage(steps=6_000, lr=3e-3, warmup=0.1, final=0.03, clip=2.0),
    ),
    # As published, but for the shift of the inference network's head.
    "paper": SymmetryConfig(
        interpolation="bspline",
        angles="line",
        circular="none",
        alignment=0.0,
        settling=0.0,
        prototype_noise=0.0,
        holdout=0.0,
    ),
}


def resolve_config(config: SymmetryConfig | str) -> SymmetryConfig:
    """A configuration, or the preset of that name."""
    return chosen(config, SymmetryConfig, PRESETS)
