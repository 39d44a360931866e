"""Configuration of the orbit posterior, and the presets "quick" and "default"."""

from dataclasses import dataclass
from typing import Literal

from symmetries._utils.config import Config, check_parts, register_presets
from symmetries._validation.checks import check_choice, check_number, check_whole, invalid, short
from symmetries.training.recipe import Recipe

NETWORKS = ("auto", "mlp", "cnn")


@dataclass(frozen=True)
class Views(Config):
    """How pictures are shown to the network, so that nothing but their content tells the pose.

    Args:
        before: standard deviation, in pixels, of the blur before pictures are resampled: what is
            left is resampled almost without loss, whatever the angle.
        least: smallest standard deviation, in pixels, of the blur afterwards.
        most: largest standard deviation of it; each view draws its own.
        edges: standard deviation, in pixels of the data, of a further blur where contents on a
            plain background turn: sharp edges show the pixels on which they were drawn.
        grain: standard deviation, in the strength of the content, of noise in pixels of the data
            where contents on a plain background turn: it hides what is left of those pixels.
        noise: largest standard deviation of the noise, in those of pixels.
        jitter: how much pictures are zoomed (as a logarithm), moved (in half-images) and made
            stronger or weaker before a move, where that is not asked for; 0 turns it off.
        margin: pixels between the frame and the round window.
        readings: views over which the density of a picture is averaged.
    """

    before: float = 0.6
    least: float = 0.5
    most: float = 1.2
    edges: float = 1.5
    grain: float = 0.1
    noise: float = 0.1
    jitter: float = 0.15
    margin: float = 1.0
    readings: int = 8

    def __post_init__(self) -> None:
        for name in ("before", "least", "most", "edges", "grain", "noise", "jitter", "margin"):
            check_number(getattr(self, name), name, least=0)
        check_whole(self.readings, "readings")
        if self.most < self.least:
            raise invalid("most", f"at least {self.least}", self.most, "see least")


@dataclass(frozen=True)
class Network(Config):
    """The network that reads poses.

    Args:
        kind: "cnn", "mlp", or "auto": "mlp" below 16 x 16, "cnn" above.
        channels: of the first convolutions.
        blocks: residual blocks at each resolution.
        features: that the densities are computed from.
        dropout: before the densities.
        largest: side, in pixels, to which larger pictures are shrunk first.
    """

    kind: Literal["auto", "mlp", "cnn"] = "auto"
    channels: int = 32
    blocks: int = 1
    features: int = 256
    dropout: float = 0.2
    largest: int = 64

    def __post_init__(self) -> None:
        check_choice(self.kind, NETWORKS, "kind")
        for name in ("channels", "blocks", "features"):
            check_whole(getattr(self, name), name, most=10**5)
        check_whole(self.largest, "largest", least=8)
        check_number(self.dropout, "dropout", 0, 0.9)


@dataclass(frozen=True)
class Training(Recipe):
    """How long and how fast to train: a recipe that is repeated in rounds until an answer settles.

    ``steps`` are those of the first round; each further one is as long as all before it together.

    Args:
        rounds: at most; one more for groups of six parameters, or if the last of several brought
            much.
        settled: nats; see ``steady``.
        steady: the round that changes the widths of held-out pictures by a smaller share than this,
            and their likelihood by less than ``settled``, is the last.
    """

    steps: int = 1000
    batch_size: int = 512
    lr: float = 2e-3
    warmup: float = 0.05
    final: float = 0.01
    clip: float | None = 1.0
    weight_decay: float = 0.05
    rounds: int = 4
    settled: float = 0.05
    steady: float = 0.03

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole(self.rounds, "rounds", most=20)
        check_number(self.settled, "settled", least=0)
        check_number(self.steady, "steady", least=0)


@dataclass(frozen=True)
class Reading(Config):
    """How widths are read from densities: a rule that is fixed beforehand.

    A picture's pose can be told if the fit that chooses gives it a width of at most ``ratio`` times
    the width that a share ``surest`` of the pictures stays below.

    Args:
        surest: share of the pictures that sets the scale.
        ratio: how much wider others may be.
        pictures: most pictures that are read, drawn at random.
        samples: drawn from each density where the group has several parameters.
        resamples: of the bootstrap.
        coverage: of intervals.
    """

    surest: float = 0.05
    ratio: float = 1.15
    pictures: int = 4096
    samples: int = 1024
    resamples: int = 400
    coverage: float = 0.9

    def __post_init__(self) -> None:
        for name in ("surest", "coverage"):
            check_number(getattr(self, name), name, 0, 1)
        check_number(self.ratio, "ratio", least=1)
        for name in ("pictures", "samples", "resamples"):
            check_whole(getattr(self, name), name, least=2)


@dataclass(frozen=True)
class OrbitConfig(Config):
    """Everything that an orbit posterior is told.

    Args:
        bins: of the histogram of each continuous parameter.
        folds: parts of the data; each is read by a fit that has not seen it. None: seven below
            600 pictures and four below 1,500, where every one counts, and two above.
        held_out: share of a fit's pictures that decide when to stop.
        check: plant known transformations and report what was recovered.
        views: how pictures are shown.
        network: what reads them.
        training: of each fit.
        reading: from densities to widths.
    """

    bins: int = 120
    folds: int | None = None
    held_out: float = 0.15
    check: bool = True
    views: Views = Views()
    network: Network = Network()
    training: Training = Training()
    reading: Reading = Reading()

    def __post_init__(self) -> None:
        check_whole(self.bins, "bins", least=8, most=10_000)
        if self.folds is not None:
            check_whole(self.folds, "folds", least=2, most=100)
        if not isinstance(self.held_out, int | float) or not 0 < self.held_out < 1:
            got = short(self.held_out)
            raise invalid("held_out", "a share between 0 and 1", got, "0.15 is usual")
        parts = {"views": Views, "network": Network, "training": Training, "reading": Reading}
        check_parts(self, parts)


register_presets(
    OrbitConfig,
    {
        # On a CPU: a minute or two.
        "quick": OrbitConfig(
            bins=72,
            network=Network(kind="mlp", features=128, dropout=0.1, largest=24),
            training=Training(steps=450, batch_size=128),
            reading=Reading(pictures=768, samples=512),
            views=Views(readings=4),
        ),
        "default": OrbitConfig(),
    },
)
