"""Checks of a user's network: its layers and outputs, and that it treats examples one by one."""

import torch
from torch import Tensor, nn

from symmetries._utils.eval_mode import eval_mode
from symmetries._validation.checks import invalid
from symmetries._validation.placement import call_model
from symmetries.learners.invariant_network.evidence import layer_of
from symmetries.learners.invariant_network.jacobians import TORCH_ERRORS, not_differentiable
from symmetries.training.step import seeded


def layer_names(module: nn.Module) -> list[str]:
    """Return names of the layers that own trained parameters, in order."""
    names = [layer_of(name) for name, p in module.named_parameters() if p.requires_grad]
    return list(dict.fromkeys(names))


def check_layers(module: nn.Module) -> None:
    """Raise an error unless a module has trained parameters and treats examples one by one."""
    if not layer_names(module):
        remedy = "set requires_grad of the weights to learn"
        raise invalid("module", "parameters to train", "none", remedy)
    for name, value in module.named_parameters():
        if isinstance(value, nn.parameter.UninitializedParameter):
            remedy = "call the module once on images of their size"
            raise invalid("module", "weights of known shapes", f"{name!r} without one", remedy)
        if value.requires_grad and value.dtype not in (torch.float32, torch.float64):
            remedy = "call module.float(); precision='bf16-mixed' rounds products in training"
            raise invalid(
                "module", "weights in float32 or float64", f"{name!r} in {value.dtype}", remedy
            )
    for name, part in module.named_modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm) and part.running_mean is None:
            remedy = "use track_running_stats=True, nn.GroupNorm or nn.LayerNorm"
            expected = "layers that treat examples one by one in eval mode"
            raise invalid("module", expected, f"{name!r} without running statistics", remedy)


@torch.no_grad()
def reinitialise(module: nn.Module, seed: int) -> None:
    """Draw initial values anew, of all weights that are trained.

    Layers with ``reset_parameters`` do it. Weights that it leaves alone, and those of other layers,
    such as attention, get normal random numbers with the mean and standard deviation that they
    have. Frozen weights stay, also those beside trained ones in a layer.
    """
    frozen = {value: value.clone() for value in module.parameters() if not value.requires_grad}
    with seeded(seed):
        for part in module.modules():
            own = [p for p in part.parameters(recurse=False) if p.requires_grad]
            before = [value.clone() for value in own]
            reset = getattr(part, "reset_parameters", None)
            if own and callable(reset):
                reset()
            for value, old in zip(own, before, strict=True):
                if torch.equal(value, old):
                    spread = value.std(correction=0) if value.numel() > 1 else 0.0
                    value.copy_(value.mean() + spread * torch.randn(value.shape).to(value))
    for value, old in frozen.items():
        value.copy_(old)


@torch.no_grad()
def count_outputs(module: nn.Module, shape: tuple[int, int, int], likelihood: str) -> int:
    """Return K for a module from images (N, C, H, W) to (N, K); raise an error for other shapes."""
    like = next(module.parameters())
    with seeded(0), eval_mode(module):
        trial = torch.rand(2, *shape).to(like)
        outputs = call_model(module, trial, "images")
        alone = call_model(module, trial[:1], "images")
        with torch.enable_grad():
            differentiable = _differentiable(module, trial)
    if not isinstance(outputs, Tensor) or outputs.ndim != 2 or len(outputs) != 2:
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise invalid("module", "outputs (N, K) for images", got, "flatten what it returns")
    if not bool(outputs.isfinite().all()):
        remedy = "look for roots and logarithms of negative numbers, and for weights that are NaN"
        raise invalid("module", "finite outputs for images from 0 to 1", "NaN or infinite", remedy)
    if not torch.allclose(outputs[:1], alone, rtol=1e-2, atol=1e-3 * float(outputs.abs().max())):
        remedy = "remove noise and statistics of batches, or see that eval() turns them off"
        got = "outputs that depend on the batch or on chance"
        raise invalid("module", "one answer for each example in eval mode", got, remedy)
    if not differentiable:
        remedy = "remove detach() and no_grad() around its layers"
        raise invalid("module", "outputs that depend on the weights", "detached ones", remedy)
    if likelihood == "categorical":
        if outputs.shape[1] < 2:
            remedy = "give one logit for each class"
            raise invalid("module", "logits of at least two classes", "one output", remedy)
        sums = bool((outputs >= 0).all()) and bool(((outputs.sum(1) - 1).abs() < 1e-4).all())
        within = bool(((outputs > 0) & (outputs < 1)).all())
        if sums or (within and isinstance(list(module.modules())[-1], nn.Sigmoid)):
            remedy = f"remove the {'softmax' if sums else 'sigmoid'} at its end"
            raise invalid("module", "logits", "probabilities", remedy)
    return outputs.shape[1]


def _differentiable(module: nn.Module, images: Tensor) -> bool:
    """Whether the outputs depend on weights; raise an error if torch cannot differentiate them."""
    outputs = module(images)
    if not isinstance(outputs, Tensor) or not outputs.requires_grad:
        return not isinstance(outputs, Tensor)  # other outputs are refused by their type
    weights = [value for value in module.parameters() if value.requires_grad]
    try:
        torch.autograd.grad(outputs.sum(), weights, allow_unused=True)
    except TORCH_ERRORS as error:
        raise not_differentiable(error) from error
    return True
