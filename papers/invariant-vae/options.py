"""The command line of this page, and the configurations of the joint model that it asks for."""

import argparse
from collections.abc import Sequence
from pathlib import Path

import joint

from symmetries.learners.invariant_vae import InvariantVAEConfig

HERE = Path(__file__).parent
PARTS = (
    "rotation",
    "affine",
    "growing",
    "augerino",
    "ablations",
    "learned-noise",
    "same",
    "same-learned",
    "figure9",
    "samples",
    "images",
)
QUICK = InvariantVAEConfig.preset("quick").replace(
    channels=(8, 16),
    hidden=32,
    samples=3,
    features=(64, 32),
    steps=40,
    batch_size=32,
    warmup=0.25,
)
SHAPES = QUICK.replace(
    latent=3,
    channels=(8, 8),
    samples=4,
    noise=0.15,
    base=(16,),
    conditioner=16,
    lr=1e-2,
    warmup=0.5,
)


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="Invariant generative models.")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=PARTS)
    parser.add_argument("--data", default=None, help="folder of the data sets")
    parser.add_argument("--out", type=Path, default=HERE / "out")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--added", type=float, nargs="+", default=[0, 15, 45, 90, 180])
    parser.add_argument("--steps", type=int, default=15_000, help="of the joint model")
    parser.add_argument("--short", type=int, default=300, help="steps on shapes, and of ablations")
    parser.add_argument("--base", type=int, default=None, help="steps of the run without rotation")
    parser.add_argument("--which", nargs="+", default=list(joint.ABLATIONS), help="ablations")
    parser.add_argument("--augerino-steps", type=int, default=2000)
    parser.add_argument("--views", type=int, default=None, help="of the encoder, in ablations")
    parser.add_argument("--once", action="store_true", help="digits turned once, not alike")
    parser.add_argument("--alike", action="store_true", help="upright digits as smooth as others")
    parser.add_argument("--shapes", action="store_true", help="rotation and affine on shapes")
    parser.add_argument("--digits", action="store_true", help="digits of 8 x 8 pixels")
    parser.add_argument("--paper", action="store_true", help="the paper's own networks")
    parser.add_argument("--full-precision", action="store_true", help="no bfloat16")
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[12_500, 25_000, 50_000])
    parser.add_argument("--rotations", type=float, nargs="+", default=[0, 45, 90, 180])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=None)
    parser.add_argument("--least-noise", type=float, nargs="+", default=[0.2, 0.01], help="samples")
    parser.add_argument("--vae-steps", type=int, default=10_000)
    parser.add_argument("--vae-lr", type=float, default=3e-3)
    parser.add_argument("--own", action="store_true", help="symmetry models of a VAE's own images")
    parser.add_argument("--live", action="store_true", help="AugVAE: new versions at every step")
    parser.add_argument("--channels", type=int, nargs="+", default=[64, 128], help="of the VAEs")
    parser.add_argument("--hidden", type=int, default=256, help="units between them and the code")
    parser.add_argument("--vae-batch", type=int, default=512)
    parser.add_argument("--symmetry-steps", type=int, nargs=2, default=(12_000, 5000))
    parser.add_argument("--small", action="store_true", help="MNIST at 14 x 14, minutes on a CPU")
    parser.add_argument("--limit", type=float, help="begin no joint model that ends later, seconds")
    parser.add_argument("--alone", action="store_true", help="nothing else is on the GPU")
    parser.add_argument("--quick", action="store_true", help="small digits, two minutes on a CPU")
    parser.add_argument("--figures", action="store_true", help="draw at the end")
    parser.add_argument("--samples", type=Path, default=None, help="with --draw: a page of digits")
    parser.add_argument("--ratios", type=Path, default=None, help="compare widths in this folder")
    parser.add_argument("--draw", type=Path, default=None, help="draw what this folder holds")
    arguments = parser.parse_args(words)
    arguments.source = "mnist-14" if arguments.small else "mnist"
    if arguments.once:
        arguments.source = "mnist-once"
    if arguments.alike:
        arguments.source = "mnist-alike"
    if arguments.shapes:
        arguments.source, arguments.images = "shapes", 2000
    if arguments.digits:
        arguments.source = "digits"
    if arguments.quick:
        arguments.source, arguments.augerino_steps = "digits", 20
        arguments.added, arguments.images, arguments.short = [0.0, 90.0], 1000, 20
        arguments.steps = QUICK.training.steps
    return arguments


def joint_config(arguments: argparse.Namespace) -> InvariantVAEConfig:
    """Of the joint model."""
    if arguments.quick:
        return QUICK
    if arguments.shapes:
        paper = {"angles": "line", "views": 1, "features": (64, 32)} if arguments.paper else {}
        return SHAPES.replace(steps=arguments.short, **paper)
    config = InvariantVAEConfig.preset("paper" if arguments.paper else "default")
    return config.replace(steps=arguments.steps, half=not arguments.full_precision)
