"""Every kernel as it is compiled, against torch: ``python tests/ops/compiled.py`` on a GPU.

Kernels in CUDA C, which have no interpreter, here; the flow's and Triton's in the scripts beside
this one, which run at the same time in processes of their own.
"""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

from symmetries.actions.resample import warp
from symmetries.groups.affine import affine_exp
from symmetries.nn.perceptron import gelu_norm
from symmetries.ops.compiler import has_compiler
from symmetries.training.fused_adam import KernelAdam, KernelAdamW

DEVICE = "cuda"
HERE = Path(__file__).parent


def error(ours, exact):
    """Relative error against float64."""
    return ((ours.double() - exact).norm() / exact.norm()).item()


def compare(function, *inputs):
    """Largest error of value and gradients."""
    fast = [x.float().requires_grad_() for x in inputs]
    slow = [x.double().requires_grad_() for x in inputs]
    ours, exact = function(*fast), function(*slow)
    weight = torch.randn(exact.shape, dtype=torch.float64, device=DEVICE)
    first = torch.autograd.grad(ours, fast, weight.float())
    second = torch.autograd.grad(exact, slow, weight)
    return max(error(a, b) for a, b in zip((ours, *first), (exact, *second), strict=True))


def warps():
    """All modes and more pictures than run at once; a cubic has no jumps in its slopes."""
    for n, channels, side in ((4301, 1, 28), (40, 3, 64)):
        images = torch.rand(n, channels, side, side, device=DEVICE)
        theta = affine_exp(0.3 * torch.randn(n, 6, device=DEVICE, dtype=torch.float64))[:, :2]
        for mode in ("bicubic", "bspline"):

            def run(x, t, mode=mode):
                return warp(x, t, interpolation=mode)

            yield f"{mode} warp, {n} x {channels} x {side} x {side}", compare(run, images, theta)


def chain(images, theta):
    """Warps after warps, and after torch's kernels; the gradients."""
    leaves = [images.detach().requires_grad_(), theta.detach().requires_grad_()]
    x = leaves[0]
    for _ in range(4):
        x = warp(warp(x, leaves[1]), leaves[1])
        y = torch.zeros_like(x)
        y += warp(x.clone(), leaves[1])
        x = y.tanh()
    gradients = torch.autograd.grad(x.square().sum(), leaves)
    return [x.detach(), *gradients]


def graphs():
    """Kernels in a CUDA graph against the same one by one."""
    images = torch.rand(2560, 1, 28, 28, device=DEVICE)
    theta = affine_exp(0.1 * torch.randn(2560, 6, device=DEVICE))[:, :2].contiguous()
    exact = [part.double() for part in chain(images, theta)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        chain(images, theta)
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = chain(images, theta)
    worst = 0.0
    for _ in range(20):
        for part in found:
            part.fill_(torch.nan)
        graph.replay()
        worst = max(worst, *(error(a, b) for a, b in zip(found, exact, strict=True)))
    yield "chain of warps in a graph", worst


def norms():
    """Widths of one and of several warps."""
    for rows, width in ((2561, 256), (700, 512), (300, 2048)):
        z = torch.randn(rows, width, device=DEVICE)
        vectors = (torch.randn(width, device=DEVICE) for _ in range(3))

        def units(z, bias, gamma, beta):
            norm = torch.nn.LayerNorm(len(bias), device=DEVICE)
            del norm.weight, norm.bias
            norm.weight, norm.bias = gamma, beta  # tensors in the place of parameters
            return gelu_norm(z, norm, bias)

        yield f"gelu norm, {rows} x {width}", compare(units, z, *vectors)


def optimisers():
    """Three clipped steps of more tensors than a table holds."""
    for kind, plain in ((KernelAdamW, torch.optim.AdamW), (KernelAdam, torch.optim.Adam)):
        sizes = [1_000_003, 5, 2048, 1, *[777] * 90]
        ours = [torch.randn(n, device=DEVICE, requires_grad=True) for n in sizes]
        exact = [p.detach().clone().requires_grad_() for p in ours]
        settings = {"weight_decay": 0.1, "fused": True, "capturable": True}
        lr = torch.tensor(0.01, device=DEVICE)
        fast = kind([{"params": ours, "lr": lr, "clip": True}], **settings)
        slow = plain(exact, lr=0.01, **settings)
        fast.largest = 3.0
        for _ in range(3):
            for p, q in zip(ours, exact, strict=True):
                p.grad = torch.randn_like(p)
                q.grad = p.grad.clone()
            torch.nn.utils.clip_grad_norm_(exact, fast.largest)
            if fast.step(lambda ours=ours: ours[0].grad.sum()) is None:
                raise SystemExit("a step by a closure has no loss")
            slow.step()
        pairs = zip(ours, exact, strict=True)
        yield kind.__name__, max(error(p.detach(), q.detach().double()) for p, q in pairs)


def main():
    """Check all; the scripts' reports follow ours."""
    began = time.perf_counter()
    started = {}
    scripts = [(path.name,) for path in HERE.glob("*interpreted*.py")]
    scripts.remove(("flow_interpreted.py",))  # takes longest: its cases are shared out
    scripts += [("flow_interpreted.py", *some) for some in ("012", "3", "4")]
    for name, *arguments in (*scripts, ("flow_compiled.py",)):
        report = tempfile.TemporaryFile("w+")  # noqa: SIM115 - read when it ends
        command = [sys.executable, str(HERE / name), *arguments]
        process = subprocess.Popen(command, stdout=report, stderr=subprocess.STDOUT)
        started[" ".join((name, *arguments))] = process, report
    torch.manual_seed(0)
    torch.set_float32_matmul_precision("highest")
    wrong = []
    for part in (warps, norms, optimisers, graphs):
        for name, worst, *allowed in part():
            print(f"{name} {worst:.1e}", flush=True)  # noqa: T201
            most = allowed[0] if allowed else 2e-5
            if not worst < most:
                wrong.append(f"{name}: largest relative error {worst:.1e}, allowed {most}")
    while started:  # as they end
        time.sleep(0.1)
        ended = [name for name, (process, _) in started.items() if process.poll() is not None]
        for name in ended:
            process, report = started.pop(name)
            report.seek(0)
            head = f"== {name}, status {process.returncode}, {time.perf_counter() - began:.0f} s"
            print(f"{head}\n{report.read()}", flush=True)  # noqa: T201
            if process.returncode:
                wrong.append(name)
    raise SystemExit("wrong: " + "; ".join(wrong) if wrong else 0)


if __name__ == "__main__":
    if not has_compiler():
        raise SystemExit("needs a GPU, and the NVRTC library of torch's CUDA builds")
    main()
