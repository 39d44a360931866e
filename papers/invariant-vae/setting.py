"""What is run for Figure 9, and for new images: sizes, rotations, seeds, networks."""

from dataclasses import dataclass
from typing import Any

from joint import AFFINE, SAMPLES

from symmetries.learners.vae import VAEConfig

LARGEST = 50_000
KINDS = ("VAE", "fixed", "AugVAE", "InvVAE")  # and "planted": see versions.py
WHOLE = ("mnist", "mnist-once", "mnist-alike")  # of 28 x 28 pixels
VERSIONS, TRANSFORMATIONS = 1_400_000, 4_500_000  # for AugVAE, drawn ahead


@dataclass(frozen=True)
class Setting:
    """What is run: sizes, added rotations, seeds, steps."""

    sizes: tuple[int, ...]
    added: tuple[float, ...]
    seeds: tuple[int, ...]
    vae: VAEConfig
    symmetry: tuple[int, int]
    group: str
    count: int
    source: str
    folder: str | None
    device: str
    samples: int = SAMPLES
    kinds: tuple[str, ...] = KINDS
    versions: int = VERSIONS
    live: bool = False  # AugVAE has new versions at every step
    own: bool = False  # a symmetry model sees all images that the VAE learns from

    @property
    def images(self) -> int:
        """How many are turned; sizes are the first of them, so that sets hold one another."""
        return LARGEST if self.source in WHOLE else max(self.sizes)


def seeds_of(arguments: Any) -> range:  # noqa: ANN401 - argparse's
    """The seeds that the command line asks for."""
    return range(arguments.first_seed, arguments.first_seed + arguments.seeds)


def figure9_setting(arguments: Any) -> Setting:  # noqa: ANN401 - argparse's
    """The grid that the command line asks for."""
    if arguments.quick:
        vae = VAEConfig.preset("quick").replace(steps=60)
        return Setting(
            (700,),
            (90.0,),
            (0,),
            vae,
            (40, 20),
            "rotation",
            100,
            "digits",
            None,
            arguments.device,
            30,
            versions=2000,
        )
    if arguments.small:
        vae = VAEConfig.preset("quick").replace(
            latent=10,
            initial_noise=0.08,
            least_noise=0.01,
            kl_warmup=0.5,
            steps=500,
        )
        sizes, added = (1000, 4000), (0.0, 180.0)
        where = ("mnist-14", arguments.data, arguments.device)
        return Setting(
            sizes, added, (0,), vae, (600, 200), "rotation", 200, *where, 100, versions=100_000
        )
    steps = arguments.vae_steps
    return Setting(
        tuple(arguments.sizes),
        tuple(arguments.rotations),
        tuple(seeds_of(arguments)),
        VAEConfig().replace(
            channels=tuple(arguments.channels),
            strides=(2, 2, 1)[: len(arguments.channels)],
            hidden=arguments.hidden,
            steps=steps,
            initial_noise=0.2,
            batch_size=arguments.vae_batch,
            half=not arguments.full_precision,
            lr=arguments.vae_lr,
        ),
        tuple(arguments.symmetry_steps),
        AFFINE,
        2000,
        arguments.source,
        arguments.data,
        arguments.device,
        kinds=tuple(arguments.kinds or KINDS),
        versions=TRANSFORMATIONS if arguments.live else VERSIONS,
        live=arguments.live,
        own=arguments.own,
    )
