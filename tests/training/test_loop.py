"""What the loop does at each step, against the same written out by hand."""

import io
import itertools
import subprocess
import sys
import types
from dataclasses import dataclass

import pytest
import torch
from rich.console import Console
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from symmetries.training import TrainConfig, train
from symmetries.training.batches import HostBatches, Order
from symmetries.training.fabric import fabric_class
from symmetries.training.graph import wants_graph
from symmetries.training.log import ProgressBar
from symmetries.training.optim import build_optimizer, lr_factor
from symmetries.training.step import HostReadError, Step

from .helpers import ROWS, loss, make_config, make_data, make_model, same_state


def error_only(model, batch, step):
    return {"loss": (model(batch[0]) - batch[1]).square().mean()}


def by_hand(model, optimizer, config, steps, clipped=None):
    """The loop without a library."""
    order = Order(ROWS, config.batch_size, config.seed)
    x, y = make_data()
    peaks = [group["lr"] for group in optimizer.param_groups]
    for index in range(steps):
        chosen = order.indices(index)
        optimizer.zero_grad()
        (model(x[chosen]) - y[chosen]).square().mean().backward()
        if config.optimiser.clip is not None:
            nn.utils.clip_grad_norm_(clipped or model.parameters(), config.optimiser.clip)
        for group, peak in zip(optimizer.param_groups, peaks, strict=True):
            group["lr"] = peak * lr_factor(index, config)
        optimizer.step()


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
def test_loop_is_the_textbook_loop(name):
    config = make_config(algorithm=name, weight_decay=0.1, momentum=0.5, clip=0.3)
    ours, theirs = make_model(0.0), make_model(0.0)
    train(ours, error_only, make_data(), config)
    kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}
    extra = {"momentum": 0.5} if name == "sgd" else {}
    by_hand(
        theirs, kinds[name](theirs.parameters(), lr=0.01, weight_decay=0.1, **extra), config, 24
    )
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


def test_groups_have_their_own_rates_and_may_stay_unclipped():
    config = make_config(algorithm="sgd", clip=0.05)
    ours, theirs = make_model(0.0), make_model(0.0)
    groups = [
        {"params": ours[0].parameters(), "lr_multiplier": 0.1, "clip": False},
        {"params": [ours[3].weight], "lr": 0.5, "weight_decay": 0.2},
    ]
    bias = ours[3].bias.clone()
    train(ours, error_only, make_data(), config, param_groups=groups)
    optimizer = torch.optim.SGD(
        [
            {"params": theirs[0].parameters(), "lr": 0.001},
            {"params": [theirs[3].weight], "lr": 0.5, "weight_decay": 0.2},
        ]
    )
    by_hand(theirs, optimizer, config, 24, clipped=[theirs[3].weight])
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)
    assert torch.equal(ours[3].bias, bias), "what is in no group is not trained"


@pytest.mark.parametrize(
    ("group", "message"),
    [
        ({"lr": 0.1}, "'params'"),
        ({"params": [], "speed": 1}, "speed"),
        ({"params": [], "lr": 1.0, "lr_multiplier": 2.0}, "both"),
        ({"params": [nn.Parameter(torch.zeros(1))]}, "parameters of the model"),
        ({"params": []}, "parameters to train"),
    ],
)
def test_bad_groups_are_named(group, message):
    with pytest.raises(ValueError, match=message):
        build_optimizer(make_model(), make_config(), [group], lr_tensor=False)


def test_schedule():
    config = TrainConfig(steps=100, batch_size=1, lr=2.0).replace(warmup=0.1, final=0.25)
    factors = [lr_factor(step, config) for step in range(100)]
    assert factors[:10] == pytest.approx([(step + 1) / 10 for step in range(10)])
    assert factors[10] == 1.0
    assert factors[55] == pytest.approx((1 + 0.25) / 2)
    assert all(a > b for a, b in itertools.pairwise(factors[10:]))
    assert factors[-1] == pytest.approx(0.25, abs=1e-3)
    constant = TrainConfig(steps=100, batch_size=1).replace(schedule="constant")
    assert {lr_factor(step, constant) for step in range(100)} == {1.0}


@pytest.mark.parametrize(
    ("field", "value"),
    [
        *(("steps", 0), ("steps", 1.5), ("batch_size", -1), ("lr", 0.0), ("lr", float("nan"))),
        *(
            ("lr", "fast"),
            ("clip", 0.0),
            ("warmup", 25),
            ("warmup", -0.1),
            ("seed", -1),
            ("weight_decay", -0.1),
        ),
        *(("schedule", "step"), ("algorithm", "lion"), ("precision", "8"), ("graph", "on")),
        *(("device", "tpu"), ("device", "cpu:1"), ("betas", (0.9, 1.0)), ("log_every", 0)),
    ],
)
def test_bad_settings_are_named(field, value):
    with pytest.raises(ValueError, match=f"{field}: expected"):
        make_config(**{field: value})


@pytest.mark.parametrize("name", ["resume", "tensorboard"])
def test_some_settings_need_a_folder(name):
    with pytest.raises(ValueError, match=f"out: expected a folder, because {name}=True"):
        make_config(**{name: True})


@dataclass(frozen=True)
class FewImages:
    images: torch.Tensor
    labels: torch.Tensor | None


class Items(Dataset):
    def __len__(self):
        return ROWS

    def __getitem__(self, index):
        x, y = make_data()
        return x[index], y[index]


@pytest.mark.parametrize("kind", [FewImages, TensorDataset, "items", "workers"])
def test_every_kind_of_data_gives_the_same_run(kind):
    expected, model = make_model(), make_model()
    train(expected, loss, make_data(), make_config())
    changes = {"workers": 1} if kind == "workers" else {}
    data = Items() if isinstance(kind, str) else kind(*make_data())
    train(model, loss, data, make_config(**changes))
    assert same_state(model, expected)


def test_images_without_labels_come_alone():
    def alone(model, batch, step):
        (x,) = batch
        return {"loss": model(x).square().mean()}

    train(make_model(), alone, FewImages(make_data()[0], None), make_config(steps=3))


def test_data_kept_on_the_host_is_gathered_there():
    x, y = make_data()
    order = Order(ROWS, 8, seed=1)
    batches = HostBatches((x, y), order, torch.device("cpu"), steps=6)
    chosen = order.indices(3)
    a, b = batches.batch(batches.inputs(3))
    assert torch.equal(a, x[chosen])
    assert torch.equal(b, y[chosen])


class Endless(IterableDataset):
    def __iter__(self):
        return iter(())


class Texts(Items):
    def __getitem__(self, index):
        return {"text": "x"}


@pytest.mark.parametrize(
    ("data", "error", "message"),
    [
        (torch.zeros(3, 4), TypeError, r"wrap a single tensor"),
        ([1, 2], TypeError, "a tuple of tensors"),
        ((), TypeError, "an empty tuple"),
        ((torch.zeros(3), 5), TypeError, "tensors with a first axis"),
        ((torch.tensor(1.0),), TypeError, "tensors with a first axis"),
        ((torch.zeros(3, 4), torch.zeros(2)), ValueError, r"one length, got \[2, 3\]"),
        ((torch.zeros(0, 4),), ValueError, "at least one example"),
        (Endless(), TypeError, "random access"),
        (Texts(), ValueError, "items that collate to tensors"),
    ],
)
def test_bad_data_is_named(data, error, message):
    with pytest.raises(error, match=message):
        train(make_model(), loss, data, make_config())


@pytest.mark.parametrize(
    ("terms", "message"),
    [
        (lambda e: e, "a mapping with 'loss', got Tensor"),
        (lambda e: {"error": e}, "a mapping with 'loss', got keys"),
        (lambda e: {"loss": e.expand(3)}, r"got shape \(3,\)"),
        (lambda e: {"loss": e, "x": 1.0}, "'x': expected a tensor without axes, got float"),
        (lambda e: {"loss": e, "lr": e}, "names other than"),
        (lambda e: {"loss": e.detach()}, "a tensor with a gradient"),
    ],
)
def test_bad_losses_are_named(terms, message):
    def bad(model, batch, step):
        return terms(error_only(model, batch, step)["loss"])

    with pytest.raises(ValueError, match=message):
        train(make_model(), bad, make_data(), make_config())


def test_model_without_parameters_is_named():
    with pytest.raises(ValueError, match="model: expected parameters to train"):
        train(nn.Identity(), loss, make_data(), make_config())


def test_on_step_sees_every_step_and_tensors():
    seen = []
    config = make_config()
    train(make_model(), loss, make_data(), config, on_step=lambda s, m: seen.append((s.index, m)))
    assert [index for index, _ in seen] == list(range(24))
    assert all(set(m) == {"loss", "error"} and not m["loss"].requires_grad for _, m in seen)


def test_same_seed_same_run_whatever_the_global_state():
    a, b = make_model(), make_model()
    torch.manual_seed(1)
    train(a, loss, make_data(), make_config())
    torch.manual_seed(2)
    b.eval()  # the loop sets train mode
    train(b, loss, make_data(), make_config())
    assert same_state(a, b)


def test_parameters_that_change_hands_keep_their_identity():
    model = make_model()
    before = [id(parameter) for parameter in model.parameters()]
    train(model, loss, make_data(), make_config(steps=3))
    assert [id(parameter) for parameter in model.parameters()] == before


@pytest.mark.parametrize(
    ("precision", "dtype"),
    [("64-true", torch.float64), ("bf16-true", torch.bfloat16), ("bf16-mixed", torch.float32)],
)
def test_precision(precision, dtype):
    model, seen = make_model(), set()

    def watched(model, batch, step):
        seen.add(batch[0].dtype)
        return error_only(model, batch, step)

    train(model, watched, make_data(), make_config(precision=precision))
    assert {parameter.dtype for parameter in model.parameters()} == {dtype}
    assert seen == {dtype}, "mixed precision leaves the data as they are"


def test_channels_last_weights_train_alike():
    def convolve():
        torch.manual_seed(0)
        return nn.Sequential(nn.Conv2d(3, 4, 3), nn.Conv2d(4, 2, 3))

    def energy(model, batch, step):
        return {"loss": model(batch[0]).square().mean()}

    images = torch.randn(16, 3, 8, 8, generator=torch.Generator().manual_seed(0))
    plain, last = convolve(), convolve().to(memory_format=torch.channels_last)
    for model in (plain, last):
        train(model, energy, (images,), make_config(steps=4))
    for a, b in zip(plain.parameters(), last.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_progress_bar_shows_what_matters():
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=160)
    with ProgressBar(total=10, done=4, console=console) as bar:
        bar.numbers({"kl": 2.0, "loss": 0.125})
        bar.step(10)
    for part in ("10/10", "steps/s", "ETA", "loss 0.125", "kl 2"):
        assert part in text.getvalue()


@pytest.mark.parametrize("width", [80, 120])
def test_progress_bar_fits_into_the_terminal(width):
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=width, color_system=None)
    with ProgressBar(total=20_000, done=19_990, console=console, title="generative") as bar:
        bar._start -= 1
        bar.numbers({"loss": -12345.678, "agreement": 0.123456})
        bar.step(20_000)
    *_, last = (line for line in text.getvalue().splitlines() if "generative" in line)
    for part in ("20000/20000", "steps/s", "ETA 0:00:00", "loss -1.235e+04"):
        assert part in last
    assert "…" not in last


def test_quiet_is_quiet(capfd):
    train(make_model(), loss, make_data(), make_config(steps=5))
    captured = capfd.readouterr()
    assert captured.out == captured.err == ""
    train(make_model(), loss, make_data(), make_config(steps=5, progress=True))
    assert "5/5" in capfd.readouterr().err


def test_graph_only_where_it_can_be():
    cuda, cpu = torch.device("cuda", 0), torch.device("cpu")
    assert wants_graph(make_config(), cuda, world=1)
    assert not wants_graph(make_config(graph="off"), cuda, world=1)
    assert not wants_graph(make_config(), cuda, world=2)
    assert not wants_graph(make_config(), cpu, world=1)


def test_step_guards_its_number_from_a_graph():
    step = Step(total=4, seed=0, device=torch.device("cpu"))
    step.keep_on_device()
    fixed = step.progress
    step.begin(3)
    assert fixed is step.progress
    assert fixed.item() == 0.75
    step.host = False
    with pytest.raises(HostReadError, match=r"step\.progress"):
        _ = step.index


def test_fabric_is_found_under_either_name(monkeypatch):
    class Stand:
        pass

    module = types.ModuleType("lightning.fabric")
    module.Fabric = Stand
    monkeypatch.setitem(sys.modules, "lightning_fabric", None)
    monkeypatch.setitem(sys.modules, "lightning", types.ModuleType("lightning"))
    monkeypatch.setitem(sys.modules, "lightning.fabric", module)
    assert fabric_class() is Stand


def test_a_run_of_one_process_does_without_fabric():
    """Its import takes seconds, which every command that trains would wait for."""
    code = (
        "import sys, torch\n"
        "from symmetries.training import TrainConfig, train\n"
        "loss = lambda model, batch, step: {'loss': model(batch[0]).square().mean()}\n"
        "config = TrainConfig(2, 2, device='cpu', progress=False).replace(precision=sys.argv[1])\n"
        "train(torch.nn.Linear(1, 1), loss, (torch.ones(4, 1),), config)\n"
        "sys.exit('lightning_fabric' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code, "64-true"], check=True, timeout=120)
