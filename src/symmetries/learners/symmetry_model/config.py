"""Configuration of the symmetry model, and the presets "quick", "default" and "paper"."""

from dataclasses import dataclass
from typing import Annotated, Literal

from symmetries._utils.config import Config, register_presets
from symmetries._utils.field_rules import NonNegative, Share, Size, Within
from symmetries._validation.checks import invalid
from symmetries.nn.features import Network
from symmetries.ops.warp import Interpolation
from symmetries.training.recipe import Recipe

MOST_JITTER = 0.45  # 1 + V must have an inverse
# How far random transformations go by default: the whole circle, and what keeps a picture that
# fills its frame inside it (Allingham et al. 2024, appendix C).
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
class InferenceNetwork(Config):
    """The network f, which infers the transformation of an image.

    Args:
        kind: feature extractors of both networks: "mlp", or "cnn" for larger images.
        widths: hidden layers.
        sampled: add noise with a learned scale to eta while training, q(eta | x); otherwise f(x).
        squash: how eta is kept near its bounds b: "scale", b times the output, or "tanh".
        angles: "circle", an angle is the direction of a predicted vector, so that f can follow a
            full turn without a jump; "line", a number like the others (the paper's).
        moments: which moments of the picture f is given: "centre", it sees the picture moved to
            its centre of mass (of what differs from the background) and adds that to its shifts;
            "size", scaled to one size, too, for families that can zoom or have no scales; or "none"
            (the paper's). Shifts and sizes then need not be learned. For families with both shifts,
            and pictures on a plain background.
        pinned: with ``moments``, f adds nothing to the centre of mass: prototypes have theirs in
            the middle of the frame.
    """

    kind: Network = "mlp"
    widths: tuple[int, ...] = (2048, 1024, 512, 256)
    sampled: bool = True
    squash: Literal["scale", "tanh"] = "scale"
    angles: Literal["circle", "line"] = "circle"
    moments: Literal["none", "centre", "size"] = "none"
    pinned: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.pinned and self.moments == "none":
            remedy = 'moments="centre" moves pictures to their centre of mass'
            raise invalid("pinned", "with moments", "moments='none'", remedy)


@dataclass(frozen=True)
class FixedPoints(Config):
    """The loss that makes f find small transformations of prototypes: these become fixed points.

    It is no part of the paper's objective.

    Args:
        idempotence: its weight at the end.
        idempotence_form: the "norm" of errors, or their "squares", which count small errors less
            and a few large ones (a digit upside down) more; with these a weight of 1 and a range of
            0.25 were used.
        idempotence_range: how far from prototypes f is evaluated, as a share of the bounds.
        idempotence_start: share of the steps after which the weight begins to grow from 0.
    """

    idempotence: NonNegative = 0.2
    idempotence_form: Literal["squares", "norm"] = "norm"
    idempotence_range: Share = 0.05
    idempotence_start: Share = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.idempotence_start == 1:
            raise invalid("idempotence_start", "a share in [0, 1)", "1", "0 begins at once")


@dataclass(frozen=True)
class Objective(Config):
    """The losses of both stages; weights of 0 turn a loss off.

    Args:
        loss: "symmetric" compares two random versions of an image, "one-sided" the image with
            one; the latter where transformations lose much of the picture.
        samples: random transformations per image and step, averaged.
        invertibility: weight of the loss that keeps the way to the prototype and back lossless.
        invertibility_first: what that loss applies first: the "inverse", which leads to the
            prototype, or the transformation itself ("forward"), as the paper's equation 7 has it.
        alignment: weight, at the start, of the loss that compares transformations instead of
            pictures; it falls to 0 over the training. It guides training past local minima, such as
            a half turn, and is no part of the paper's.
        turns: alignment ignores quarter turns that leave a picture unchanged; for shapes with such
            symmetries (squares, ellipses), which f otherwise leaves turned as they are.
        fixed_points: the loss that makes prototypes fixed points of f.
        centring: weight of the loss that puts prototypes into the middle of the frame and, where
            the family has scales in both directions, gives them one size. Any prototype of an orbit
            is as good as another, and this chooses one that does not lie at the frame's edge. For
            families of affine transformations with both shifts (no part of the paper's).
        affine_jitter: largest entry of random matrices V that change every image, x to T_{1 + V} x,
            before f learns from it, so that f meets more orbits than there are images (no part of
            the paper's). The second stage sees the images as they are.
        blur: largest standard deviation, in pixels, of the blur at the start of training.
        blur_share: share of the steps in which the blur falls to 0.
        prototype_noise: standard deviation of the noise on prototypes that p(eta | x_hat) learns
            from, in those of pixels. It hides the pixel grid that an image was drawn on, which
            turns with its prototype and would reveal the angle (no part of the paper's).
    """

    loss: Literal["symmetric", "one-sided"] = "symmetric"
    samples: Size = 5
    invertibility: NonNegative = 0.1
    invertibility_first: Literal["inverse", "forward"] = "inverse"
    alignment: NonNegative = 1.0
    turns: bool = False
    fixed_points: FixedPoints = FixedPoints()
    centring: NonNegative = 0.0
    affine_jitter: Annotated[float, Within(0, MOST_JITTER)] = 0.0
    blur: NonNegative = 0.0
    blur_share: Share = 0.01
    prototype_noise: NonNegative = 0.5


@dataclass(frozen=True)
class GenerativeNetwork(Config):
    """The network of p(eta | x_hat): features of the prototype, and a flow conditioned on them.

    Args:
        features: hidden layers of the feature extractor.
        feature_dropout: after each of them.
        base: hidden layers that predict mean and scale of the flow's base.
        layers: number of layers of the flow.
        bins: number of bins of its splines.
        conditioner: width of its conditioners.
        conditioner_dropout: in them.
        circular: circular splines for "exact": angles that close up exactly (rotation alone, hue);
            "all" angles; or "none" (the paper's).
    """

    features: tuple[int, ...] = (1024, 512, 512)
    feature_dropout: Share = 0.2
    base: tuple[int, ...] = (256, 256)
    layers: Size = 6
    bins: Size = 6
    conditioner: Size = 256
    conditioner_dropout: Share = 0.1
    circular: Literal["exact", "all", "none"] = "exact"


_INFERENCE = Recipe()
_GENERATIVE = Recipe(lr=3e-3, final=0.03, clip=2.0)


@dataclass(frozen=True)
class SymmetryConfig(Config):
    """Networks, objectives and training of a symmetry model.

    Sizes, steps and rates are the paper's for MNIST; the objective is ours ("circle", alignment,
    idempotence, held-out images). ``SymmetryConfig.preset("paper")`` has the paper's. Fields of
    the parts are changed by their names alone: see the example.

    Args:
        network: the inference network f.
        objective: the losses.
        flow: the generative network p(eta | x_hat).
        interpolation: of all resampling.
        holdout: share of the images kept back in the second stage; the weights that explain
            those best are kept. Without it p(eta | x_hat) overfits small data sets.
        matmul_precision: of matrix products in wide layers while training on CUDA: "tf32" or
            "auto"; or "bf16", which is faster and rounds more. Parameters and everything else are
            float32.
        inference: training of the inference network.
        generative: training of the generative network.

    Example:
        >>> config = SymmetryConfig.preset("quick").replace(
        ...     samples=3, moments="centre", inference={"steps": 100}
        ... )
        >>> config.objective.samples, config.network.moments, config.inference.steps
        (3, 'centre', 100)
    """

    network: InferenceNetwork = InferenceNetwork()
    objective: Objective = Objective()
    flow: GenerativeNetwork = GenerativeNetwork()
    interpolation: Interpolation = "bilinear"
    holdout: Share = 0.1
    matmul_precision: Literal["auto", "tf32", "bf16"] = "auto"
    inference: Recipe = _INFERENCE
    generative: Recipe = _GENERATIVE

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.holdout == 1:
            raise invalid("holdout", "a share in [0, 1)", 1, "0 keeps nothing back")


_FINISH = {"warmup": 0.1, "final": 0.03, "clip": 2.0}
register_presets(
    SymmetryConfig,
    {
        # Small images on a CPU: about a minute.
        "quick": SymmetryConfig(
            InferenceNetwork(widths=(512, 256)),
            Objective(samples=2),
            GenerativeNetwork(features=(128, 64), base=(64,), layers=3, conditioner=64),
            inference=Recipe(steps=2500, batch_size=128, lr=1e-3, warmup=0.1),
            generative=Recipe(steps=1200, batch_size=128, lr=2e-3).replace(**_FINISH),
        ),
        # A real data set on a GPU in minutes, or on a CPU over night.
        "default": SymmetryConfig(
            InferenceNetwork(widths=(1024, 512, 256), moments="centre"),
            Objective(samples=3),
            GenerativeNetwork(features=(512, 256)),
            inference=Recipe(steps=15_000, lr=5e-4, warmup=0.1),
            generative=Recipe(steps=6_000, lr=3e-3).replace(**_FINISH),
        ),
        # As published, but for the shift of the inference network's head.
        "paper": SymmetryConfig(
            InferenceNetwork(angles="line"),
            Objective(
                alignment=0.0, fixed_points=FixedPoints(idempotence=0.0), prototype_noise=0.0
            ),
            GenerativeNetwork(circular="none"),
            interpolation="bspline",
            holdout=0.0,
        ),
    },
)
