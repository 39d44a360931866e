"""The host side of the kernels in CUDA C; ``make gpu`` checks the kernels themselves."""

import ctypes
import threading

import pytest
import torch

from symmetries.ops import adam as steps
from symmetries.ops._dispatch import VARIABLE, kernels_enabled, usable
from symmetries.ops.cuda import adam_cuda, compiler, warp_cuda
from symmetries.ops.cuda.compiler import _value, has_compiler


def plan(n, channels, height, width, mode="bilinear", versions=1):
    images = torch.empty(n, channels, height, width)
    return warp_cuda.Plan(images, torch.empty(n, versions, 6), mode)


@pytest.mark.parametrize(("height", "width"), [(28, 28), (17, 40), (64, 64), (9, 5), (8, 100)])
@pytest.mark.parametrize("mode", ["bilinear", "bicubic", "bspline"])
def test_plans_cover_every_pixel_and_fit(height, width, mode):
    made = plan(3, 2, height, width, mode)
    constants = made.constants
    assert constants["WARPS"] % constants["COLUMNS"] == 0
    assert 8 * constants["COLUMNS"] >= width > 8 * (constants["COLUMNS"] - 1)
    border = 2 if mode == "bilinear" else 4
    source = width + 2 * constants["MARGIN"] + 2 * border
    assert source <= constants["PITCH"] < source + 32
    assert constants["PITCH"] % 32 in (7, 9, 23, 25)
    assert constants["FILTER"] == (mode == "bspline")
    rows = height + 2 * constants["MARGIN"] + 2 * border
    assert 0 <= made.source - 4 * constants["PITCH"] * rows < 16
    assert made.source % 16 == 0
    assert made.fits()


def test_rows_are_copied_by_fours_where_they_can_be_and_it_pays():
    wide, small, cubic = plan(2, 1, 64, 64), plan(2, 1, 28, 28), plan(2, 1, 28, 28, "bicubic")
    assert wide.by_fours(to_images=False, to_map=False)
    assert wide.by_fours(to_images=True, to_map=True)
    assert cubic.by_fours(to_images=True, to_map=True)
    assert not wide.by_fours(to_images=False, to_map=True)
    assert not small.by_fours(to_images=True, to_map=True)
    assert not plan(2, 1, 64, 62).aligned
    assert not plan(2, 1, 64, 64, "bspline").aligned  # filtered as they are copied
    odd = torch.empty(2 * 64 * 64 + 1)[1:].view(2, 1, 64, 64)
    assert not warp_cuda.Plan(odd, torch.empty(2, 1, 6), "bilinear").aligned


def test_launches_fill_the_grid(monkeypatch):
    calls = []

    def kernel(*given):
        return lambda *rest: calls.append((given, rest))

    monkeypatch.setattr(warp_cuda, "cuda_kernel", kernel)
    made = plan(5, 3, 28, 28, versions=4)
    made.compile_all()
    assert calls == []
    made.launch("warp_forward")
    made.launch("warp_backward", to_map=True)
    made.launch("warp_backward", to_images=True, to_map=True)
    assert [rest[0] for _, rest in calls] == [(5, 3, 4), (5, 3, 4), (5, 3, 1)]
    assert [given[3] // made.source for given, _ in calls] == [1, 1, 2]
    assert all(rest[1:] == (128, 4, 24, 6) for _, rest in calls)


def test_large_images_are_left_to_torch():
    assert not plan(2, 3, 224, 224).fits()
    assert not plan(2, 1, 8, 200).fits()  # more warps than a block should have
    assert not plan(1, 1, 8, 8, versions=70_000).fits()  # more blocks than a grid can have
    assert plan(2, 3, 72, 72, "bspline").fits()
    assert not plan(2, 3, 96, 96, "bspline").fits()
    assert warp_cuda.plan(torch.rand(2, 1, 8, 8), torch.rand(2, 1, 6), "bilinear") is None


def test_tables_of_tensors_say_where_each_begins():
    tensors = [torch.empty(size) for size in (2048, 2049, 1, 5000)]
    table, blocks = adam_cuda._table(*([tensors] * 5))
    assert (list(table.first[:5]), blocks) == ([0, 1, 3, 4, 7], 7)
    assert list(table.size[:4]) == [2048, 2049, 1, 5000]
    assert [table.mean[i] for i in range(4)] == [t.data_ptr() for t in tensors]
    assert ctypes.sizeof(adam_cuda._Table) + ctypes.sizeof(adam_cuda._Constants) + 32 <= 4096
    many = [torch.empty(1)] * 170
    assert [len(some[0]) for some in adam_cuda._chunks(many, many)] == [80, 80, 10]


def test_arguments_become_what_c_expects():
    tensor, table = torch.zeros(2), adam_cuda._Constants()
    assert _value(tensor).value == tensor.data_ptr()
    assert isinstance(_value(3), ctypes.c_int)
    assert isinstance(_value(0.5), ctypes.c_float)
    assert _value(table) is table


def test_all_kernels_can_be_turned_off(monkeypatch):
    assert kernels_enabled()
    monkeypatch.setenv(VARIABLE, "0")
    monkeypatch.setattr("symmetries.ops._dispatch._INTERPRETED", True)
    assert not kernels_enabled()
    assert not usable("warp", torch.zeros(3))
    monkeypatch.setattr("symmetries.ops.cuda.compiler._compiles", lambda: True)
    assert not has_compiler()
    monkeypatch.delenv(VARIABLE)
    assert has_compiler()


def oracle(images, maps):
    from symmetries.ops.warp import _grid_warp

    return _grid_warp(images, maps.unflatten(-1, (2, 3)), "bilinear", "constant")


def by_torch(wrong):
    """Launches that compute by torch what the kernels would, a little wrong if asked for."""

    def forward(made, images, theta, out):
        out.copy_(oracle(images, theta) * (1.01 if wrong == "value" else 1.0))

    def backward(made, images, theta, grad_out, needs):
        inputs = [x.clone().requires_grad_() for x in (images, theta)]
        to_images, to_maps = torch.autograd.grad(oracle(*inputs), inputs, grad_out)
        if wrong == "images alone" and needs == (True, False):
            to_images = to_images * 1.01
        if wrong == "maps" and needs[1]:
            to_maps = to_maps.flip(-1)
        return to_images if needs[0] else None, to_maps if needs[1] else None

    return forward, backward


@pytest.mark.parametrize("wrong", ["", "value", "images alone", "maps"])
def test_what_is_wrong_at_first_use_is_not_used(monkeypatch, wrong):
    forward, backward = by_torch(wrong)
    monkeypatch.setattr(warp_cuda, "forward", forward)
    monkeypatch.setattr(warp_cuda, "backward", backward)
    monkeypatch.setattr(warp_cuda.Plan, "compile_all", lambda made: None)
    with torch.inference_mode():  # where it may happen to be first
        images = torch.rand(1, 1, 12, 9)
        assert warp_cuda._agrees(images, "bilinear", oracle) == (not wrong)


def test_kernels_that_do_not_compile_are_not_used(monkeypatch):
    def fail(*rest):
        raise warp_cuda.CudaError("no")

    monkeypatch.setattr(warp_cuda, "cuda_kernel", fail)
    assert not warp_cuda._agrees(torch.rand(1, 1, 12, 9), "bilinear", oracle)


def test_kernels_stay_away_from_the_cpu():
    assert not steps.is_fused([torch.zeros(3)])


def reference_move(weights, grads, means, squares, counts, *, sums, lr, largest, **rest):
    """What the kernel does, one tensor at a time."""
    scale = 1.0 if sums is None else (largest / (sums.sum().sqrt() + 1e-6)).clamp_max(1.0)
    first, second = rest["betas"]
    for weight, grad, mean, square, count in zip(
        weights, grads, means, squares, counts, strict=True
    ):
        g = grad * scale
        if rest["decoupled"]:
            weight.mul_(1 - lr * rest["decay"])
        else:
            g = g + rest["decay"] * weight
        mean.lerp_(g, 1 - first)
        square.mul_(second).addcmul_(g, g, value=1 - second)
        root = (square / (1 - second**count)).sqrt() + rest["epsilon"]
        weight.sub_(lr / (1 - first**count) * mean / root)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(steps.FusedAdam, torch.optim.Adam), (steps.FusedAdamW, torch.optim.AdamW)],
)
@pytest.mark.parametrize("largest", [None, 0.5])
@pytest.mark.parametrize("skipping", [False, True])
def test_steps_are_those_of_torch_with_clipping(monkeypatch, ours, theirs, largest, skipping):
    squares = lambda grads: torch.stack([g.square().sum() for g in grads])  # noqa: E731
    monkeypatch.setattr(adam_cuda, "move", reference_move)
    monkeypatch.setattr(adam_cuda, "sum_squares", squares)
    torch.manual_seed(0)
    fast = [torch.randn(size, requires_grad=True) for size in ((3, 2), (5,), (4,))]
    slow = [p.detach().clone().requires_grad_() for p in fast]

    def groups(parameters):
        return [
            {"params": parameters[:2], "lr": torch.tensor(0.02), "clip": True},
            {"params": parameters[2:], "lr": torch.tensor(0.1), "clip": False},
        ]

    settings = {"weight_decay": 0.1, "betas": (0.8, 0.95), "fused": True}
    mine, other = ours(groups(fast), **settings), theirs(groups(slow), **settings)
    mine.largest = largest
    if skipping:
        mine.found_inf = other.found_inf = torch.zeros(())
    for _ in range(3):
        for p, q in zip(fast, slow, strict=True):
            p.grad = torch.randn_like(p)
            q.grad = p.grad.clone()
        if largest is not None:
            torch.nn.utils.clip_grad_norm_(slow[:2], largest)
        mine.step()
        other.step()
    for p, q in zip(fast, slow, strict=True):
        torch.testing.assert_close(p, q, rtol=1e-5, atol=1e-6)
    assert mine.state_dict()["state"][0]["step"] == 3


class OnGpu:
    """What a plan looks at of images on a GPU."""

    is_cuda = True
    device = torch.device("cuda", 0)

    def __init__(self, *shape, place=0):
        self.shape, self.place = torch.Size(shape), place

    def data_ptr(self):
        return self.place


def test_plans_are_made_once_and_unknown_ones_are_asked_for_again(monkeypatch):
    answers = {(8, 8): True, (9, 9): False, (10, 10): None}
    asked = []

    def is_right(found, *rest):
        size = found.constants["H"], found.constants["W"]
        asked.append(size)
        return answers[size]

    monkeypatch.setattr(warp_cuda, "_is_right", is_right)
    monkeypatch.setattr(warp_cuda, "has_compiler", lambda: True)
    monkeypatch.setattr(warp_cuda, "_plans", {})
    theta = torch.rand(2, 1, 6)

    def found(side, **place):
        return warp_cuda.plan(OnGpu(2, 1, side, side, **place), theta, "bilinear")

    assert found(8) is found(8) is not None
    assert found(8, place=4) is not found(8)  # rows that do not begin at multiples of 16 bytes
    assert [found(9), found(9), found(10), found(10)] == [None] * 4
    assert asked == [(8, 8), (8, 8), (9, 9), (10, 10), (10, 10)]
    shared = warp_cuda.plan(OnGpu(2, 1, 8, 8), theta[:1], "bilinear")
    assert shared.steps[0] == 0
    assert found(8).steps[0] == 6
    monkeypatch.setattr(warp_cuda, "_MOST_PLANS", 1)
    assert warp_cuda.plan(OnGpu(3, 1, 8, 8), torch.rand(3, 1, 6), "bilinear").n == 3
    assert len(warp_cuda._plans) == 1


@pytest.mark.parametrize("current", [0, 1])
def test_kernels_get_their_arguments_by_address(monkeypatch, current):
    launched, entered = [], []

    class Driver:
        @staticmethod
        def cuLaunchKernel(*given):
            pointers = given[9]
            first = ctypes.c_void_p.from_address(pointers[0]).value
            number = ctypes.c_int.from_address(pointers[1]).value
            launched.append((*given[1:9], first, number))
            return 0

    class Device:
        def __init__(self, number):
            self.number = number

        def __enter__(self):
            launched.append(self.number)

        def __exit__(self, *rest):
            pass

    monkeypatch.setattr(compiler, "_driver", Driver)
    monkeypatch.setattr(compiler, "_enter", entered.append)
    monkeypatch.setattr(compiler, "_thread", threading.local())
    monkeypatch.setattr(torch.cuda, "current_device", lambda: current)
    monkeypatch.setattr(torch.cuda, "device", Device)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda _: 77, raising=False)
    kernel = compiler.CudaKernel(ctypes.c_void_p(5), ctypes.c_void_p(6), 1024, 0)
    tensor = torch.zeros(3)
    for _ in "ab":
        kernel((4, 2), 128, tensor, 9)
    once = (4, 2, 1, 128, 1, 1, 1024, 77, tensor.data_ptr(), 9)
    assert launched == ([once] * 2 if current == 0 else [0, once] * 2)
    assert entered == [0]  # once for a thread
