"""Every fused operation of the library with the places where the code asks for it, and a switch.

The library asks "may a kernel be used?" through a few functions that modules import by name. Each
such name is replaced by one that looks up which operation the calling function belongs to, and
refuses where that operation is switched off. :func:`check_coverage` reads the source and fails
unless every place that asks belongs to exactly one operation.
"""

import ast
import importlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import symmetries

# Functions that decide whether a kernel is used, by the module that defines them.
DECIDE = {
    "symmetries.ops.available": ("usable", "wanted"),
    "symmetries.ops.adam": ("has_kernel",),
    "symmetries.ops.compiler": ("has_compiler",),
    "symmetries.ops.side_streams": ("branches", "later_if_alone"),
    "symmetries.nn.fused_filters": ("can_take",),
    "symmetries.nn.fused_bank": ("can_fuse",),
}

# What they answer where an operation is switched off.
REFUSALS: dict[str, Callable[..., Any]] = {
    "branches": lambda *_, **__: nullcontext(None),
    "later_if_alone": lambda made, weights, work, *reads: work(),
}

# Whether an answer grants the operation; others do by being true.
GRANTS: dict[str, Callable[..., bool]] = {
    "branches": lambda device, wanted=True, frozen=None: bool(wanted and device.type == "cuda"),
    "later_if_alone": lambda made, *_: made is not None,
}

# Operation: places that ask for it, "module name:function" (below ``symmetries.``).
OPERATIONS: dict[str, tuple[str, ...]] = {
    # Groups and images.
    "warp": ("actions.resample usable:_resample",),
    "affine exponential": (
        "groups.exponential usable:affine_exp",
        "groups.exponential usable:family_exp",
    ),
    "affine inverse": ("groups.inverse usable:affine_inverse",),
    "affine composition": ("groups.affine usable:affine_product",),
    "folding under vmap": ("ops.vmap_rules usable:foldable",),
    # The symmetry model.
    "undone moves": ("learners.symmetry_model.moves usable:undone_moves",),
    "standardised warp": ("learners.symmetry_model.moves usable:_standardised",),
    "composed moves": ("learners.symmetry_model.moves usable:from_prototypes",),
    "standardised images": ("nn.features usable:ImageFeatures._standardised",),
    "negative mean": ("learners.symmetry_model.losses usable:_negative_mean",),
    "side streams": (
        "learners.symmetry_model.losses usable:generative_loss",
        "learners.symmetry_model.losses branches:generative_loss",
    ),
    "weights' gradients on side streams": (
        "ops.rounded later_if_alone:RoundedLinear.backward",
        "ops.flow later_if_alone:KernelFlow.backward",
        "ops.normalise later_if_alone:KernelGeluNorm.backward",
        "ops.heads later_if_alone:KernelHead.backward",
    ),
    "rounding of all weights at once": ("ops.side_streams has_kernel:rounded_copies",),
    "dropout masks": ("ops.side_streams usable:left_by_dropout",),
    # Networks.
    "gelu and norm": ("nn.perceptron usable:_fused",),
    "head": ("nn.perceptron usable:head",),
    # The flow.
    "flow (Triton and CUDA C)": ("distributions.flow_kernels usable:usable_shape",),
    "spline": (
        "distributions.spline usable:rational_quadratic",
        "distributions.spline usable:circular_spline",
    ),
    # Invariant weights.
    "resampled filters": ("nn.resampling usable:resample",),
    "orbit mean of features": ("nn.feature_maps usable:orbit_mean",),
    "product of filters and images": ("nn.invariant usable:_product",),
    "full moments": (
        "nn.full_moments usable:FullMoments.forward",
        "nn.full_moments usable:FullMoments.backward",
    ),
    "KL of factors": ("nn.variational usable:VariationalLinear._kl",),
    "expected log softmax": ("learners.invariant_weights.objectives usable:log_likelihood",),
    "elbo": ("learners.invariant_weights.objectives usable:_bound",),
    "triangular Adam": ("training.triangular usable:is_triangular",),
    # Relaxed networks.
    "filters by kernels": ("nn.fused_filters_bank can_take:launch",),
    "positional features by kernels": ("nn.fused_positions can_take:launch_places",),
    "filters and positional features": (
        "nn.fused_filters usable:can_take",
        "nn.fused_filters wanted:ready",
    ),
    "filter bank as one function (torch)": (
        "nn.conv_kernel can_fuse:PlaneKernel.generate",
        "nn.conv_kernel can_fuse:PlaneKernel._positional_phi",
        "nn.plane_checks can_fuse:may_keep",
    ),
    "gathered convolution": ("nn.gathered_conv usable:has_kernel",),
    "field norm": ("nn.field_norm usable:has_kernel",),
    # The optimiser.
    "Adam": ("training.optim has_kernel:build_optimizer",),
    # One form of an operation: CUDA C off, Triton (or torch, for Adam) in its place.
    "CUDA C form of warp": ("ops.warp_cuda has_compiler:plan",),
    "CUDA C form of flow": ("ops.flow_cuda has_compiler:suits",),
    "CUDA C form of norm": ("ops.norm_cuda has_compiler:suits",),
    "CUDA C form of Adam and rounding": ("ops.adam has_compiler:has_kernel",),
    "CUDA C forms of all": ("ops.compiler wanted:has_compiler",),
    # Only on a CPU.
    "AMX products": ("ops.amx wanted:has_amx",),
}

Site = tuple[str, str, str]  # module, name, function


class Switches:
    """Which operations are off, and which were asked for and granted since the last reset."""

    def __init__(self) -> None:
        self.off: frozenset[str] = frozenset()
        self.asked: set[str] = set()
        self.granted: set[str] = set()
        self.operation: dict[Site, str] = {}
        self._undo: list[tuple[Any, str, Any]] = []
        for operation, places in OPERATIONS.items():
            for place in places:
                module, _, rest = place.partition(" ")
                name, _, function = rest.partition(":")
                self.operation[f"symmetries.{module}", name, function] = operation

    def install(self) -> None:
        """Replace the names in all modules that ask."""
        for module, name in sorted({site[:2] for site in self.operation}):
            holder = importlib.import_module(module)
            original = getattr(holder, name)
            self._undo.append((holder, name, original))
            setattr(holder, name, self._gate(module, name, original))

    def remove(self) -> None:
        """Put the names back."""
        while self._undo:
            setattr(*self._undo.pop())

    def _gate(self, module: str, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        grants = GRANTS.get(name)

        def gate(*args: Any, **options: Any) -> Any:  # noqa: ANN401
            operation = self._found(module, name, sys._getframe(1).f_code.co_qualname)
            self.asked.add(operation)
            if operation in self.off:
                return REFUSALS.get(name, lambda *_, **__: False)(*args, **options)
            answer = original(*args, **options)
            if grants(*args, **options) if grants else answer:
                self.granted.add(operation)
            return answer

        return gate

    def _found(self, module: str, name: str, function: str) -> str:
        """The operation of a function, also where it asks from inside a comprehension."""
        while (module, name, function) not in self.operation and "." in function:
            function = function.rpartition(".")[0].removesuffix(".<locals>")
        return self.operation[module, name, function]

    @contextmanager
    def without(self, off: Sequence[str]) -> Iterator[None]:
        """Some operations switched off inside."""
        before, self.off = self.off, frozenset(off)
        try:
            yield
        finally:
            self.off = before

    @contextmanager
    def plain(self) -> Iterator[None]:
        """The library's own switch instead of these: what torch.compile can look through."""
        self.remove()
        os.environ["SYMMETRIES_KERNELS"] = "0"
        try:
            yield
        finally:
            del os.environ["SYMMETRIES_KERNELS"]
            self.install()


def sites() -> Iterator[Site]:
    """All places of the library's source that call a function of ``DECIDE`` by its name."""
    root = Path(symmetries.__file__).parent
    for path in sorted(root.rglob("*.py")):
        module = ".".join(("symmetries", *path.relative_to(root).with_suffix("").parts))
        tree = ast.parse(path.read_text())
        names = {
            (alias.asname or alias.name): alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            if alias.name in DECIDE.get(node.module or "", ())
        }
        if names:
            yield from {(module, *found) for found in _calls(tree, names, ())}


def _calls(
    node: ast.AST, names: dict[str, str], inside: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    for child in ast.iter_child_nodes(node):
        called = child.func if isinstance(child, ast.Call) else None
        if isinstance(called, ast.Name) and called.id in names:
            yield called.id, ".".join(inside)
        named = isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        within = (*inside, child.name) if named else inside
        yield from _calls(child, names, within)


def check_coverage(switches: Switches) -> None:
    """Raise unless every place that asks belongs to exactly one operation, and all exist."""
    there, known = set(sites()), set(switches.operation)
    twice = [
        p for p, n in Counter(p for places in OPERATIONS.values() for p in places).items() if n > 1
    ]
    problems = {
        "belong to no operation": there - known,
        "do not ask": known - there,
        "are listed twice": set(twice),
    }
    if any(problems.values()):
        lines = [f"{what}: {sorted(found)}" for what, found in problems.items() if found]
        raise RuntimeError("places that ask for kernels\n" + "\n".join(lines))
