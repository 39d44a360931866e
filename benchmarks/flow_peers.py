"""The library's spline flow against zuko's, nflows' and normflows', of the same size.

2,560 points of dimension 5, context of 512 features, 6 coupling layers of 6 bins, 256 hidden units
in each conditioner (a residual block of that width in nflows and normflows, whose conditioners have
no smaller form). Log-density with its gradient, log-density alone, and sampling, interleaved.
Ours predicts its base from the context by two hidden layers, "equal" has a fixed one.
nflows and normflows are no requirement: they take part where they are installed.
``--processor-time``: on one thread, which a busy machine disturbs less, into a table of its own.

    python benchmarks/flow_peers.py [--processor-time]
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from symmetries.distributions.flow import ConditionalFlow

sys.path.insert(0, str(Path(__file__).parent))
from common import interleaved, medians, record, wanted_clock

N, DIM, CONTEXT, LAYERS, BINS, HIDDEN = 2560, 5, 512, 6, 6, 256
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Peer = tuple[Any, Callable[[Tensor, Tensor], Tensor], Callable[[Tensor], Tensor]]


def ours() -> Peer:
    """This library's."""
    flow = ConditionalFlow((1.0,) * DIM, CONTEXT, layers=LAYERS, bins=BINS, hidden=HIDDEN)
    return flow, flow.log_prob, lambda c: flow.sample(c, 1)


def equal() -> Peer:
    """This library's with a fixed base, as the peers have it: equal work."""
    sizes = {"layers": LAYERS, "bins": BINS, "hidden": HIDDEN}
    flow = ConditionalFlow((1.0,) * DIM, CONTEXT, base=(), **sizes)
    return flow, flow.log_prob, lambda c: flow.sample(c, 1)


def zuko() -> Peer:
    """A neural spline flow with coupling layers (two passes)."""
    import zuko

    flow = zuko.flows.NSF(
        DIM, CONTEXT, bins=BINS, transforms=LAYERS, hidden_features=(HIDDEN,), passes=2
    )
    return flow, lambda x, c: flow(c).log_prob(x), lambda c: flow(c).sample()


def nflows() -> Peer:
    """Durkan et al.'s own."""
    from nflows.distributions import StandardNormal
    from nflows.flows import Flow
    from nflows.nn.nets import ResidualNet
    from nflows.transforms import CompositeTransform
    from nflows.transforms.coupling import PiecewiseRationalQuadraticCouplingTransform

    def conditioner(inputs: int, outputs: int) -> ResidualNet:
        return ResidualNet(inputs, outputs, HIDDEN, CONTEXT, num_blocks=1)

    layers = [
        PiecewiseRationalQuadraticCouplingTransform(
            [(i + layer) % 2 for i in range(DIM)],
            conditioner,
            num_bins=BINS,
            tails="linear",
            tail_bound=3.0,
        )
        for layer in range(LAYERS)
    ]
    flow = Flow(CompositeTransform(layers), StandardNormal([DIM]))
    return flow, lambda x, c: flow.log_prob(x, c), lambda c: flow.sample(1, c)


def normflows() -> Peer:
    """Conditional coupled splines."""
    import normflows as nf

    layers = [
        nf.flows.CoupledRationalQuadraticSpline(
            DIM, 1, HIDDEN, CONTEXT, num_bins=BINS, reverse_mask=bool(layer % 2)
        )
        for layer in range(LAYERS)
    ]
    base = nf.distributions.base.DiagGaussian(DIM, trainable=False)
    base.log_prob = lambda z, context=None, plain=base.log_prob: plain(z)
    base.forward = lambda n, context=None, plain=base.forward: plain(n)
    flow = nf.ConditionalNormalizingFlow(base, layers)
    return flow, lambda x, c: flow.log_prob(x, c), lambda c: flow.sample(N, c)[0]


def main() -> None:
    """Measure and record."""
    clock, clock_name = wanted_clock(__doc__)
    context, x = torch.randn(N, CONTEXT, device=DEVICE), 0.2 * torch.randn(N, DIM, device=DEVICE)
    peers: dict[str, Peer] = {}
    for make in (ours, equal, zuko, nflows, normflows):
        try:
            flow, log_prob, sample = make()
        except ImportError as missing:
            print(f"{make.__name__} is left out: {missing}")
            continue
        peers[make.__name__] = (flow.to(DEVICE), log_prob, sample)

    def gradient(peer: Peer) -> None:
        peer[0].zero_grad()
        (-peer[1](x, context)).mean().backward()

    def density(peer: Peer) -> None:
        with torch.no_grad():
            peer[1](x, context)

    def sampling(peer: Peer) -> None:
        with torch.no_grad():
            peer[2](context)

    rows = []
    for what, work in (
        ("log-density and gradient", gradient),
        ("log-density", density),
        ("sampling", sampling),
    ):
        calls = {name: lambda peer=peer, work=work: work(peer) for name, peer in peers.items()}
        times = medians(interleaved(calls, 15, clock))
        row: dict[str, Any] = {"what": what}
        row |= {f"{name} (ms)": 1e3 * t for name, t in times.items()}
        for mine in ("ours", "equal"):
            others = ((n, t) for n, t in times.items() if n not in ("ours", "equal"))
            row |= {f"{n} over {mine}": t / times[mine] for n, t in others}
        rows.append(row)
        print(row)
    name = "flow_peers" if clock_name == "wall" else "flow_processor"
    record(f"{name}-{DEVICE}", rows)


if __name__ == "__main__":
    main()
