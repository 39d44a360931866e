"""Invariant networks as a learner: the user's network, and how invariant its task is."""

import warnings
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from symmetries._utils.sampling import some_of
from symmetries._validation.checks import (
    check_class_range,
    check_image_shape,
    check_images,
    check_module,
    check_whole,
    invalid,
)
from symmetries.actions.base import Action
from symmetries.data.convert import images_and_labels
from symmetries.distributions.box import UniformBox
from symmetries.groups.base import Group
from symmetries.learners.base import (
    Labelled,
    LabelledLearner,
    acting_meta,
    labelled_images,
    run_options,
    stored_action,
)
from symmetries.learners.invariant_network.class_widths import ClassWidths
from symmetries.learners.invariant_network.config import InvariantNetworkConfig
from symmetries.learners.invariant_network.evidence import LaplaceEvidence, layer_of
from symmetries.learners.invariant_network.jacobians import trained
from symmetries.learners.invariant_network.modules import check_layers, count_outputs, layer_names
from symmetries.learners.invariant_network.profile import WidthProfile
from symmetries.learners.invariant_network.search import search_classes, search_widths
from symmetries.learners.invariant_network.summary import NetworkSummary
from symmetries.learners.invariant_network.training import train_jobs
from symmetries.nn.orbit_average import OrbitAverage
from symmetries.training import History, load_learner
from symmetries.training.ensemble import fit_alone

ROWS = 8  # for each weight that data determine, where the evidence of candidates is compared
LARGEST = 2**29  # numbers in those rows, at most
EVENLY = 32  # transformations of the evidence, at least: too few, uneven ones pull widths down
EVALUATED = 256  # images at a time, in eval mode
SHARED = ("out", "resume", "device", "devices", "nodes", "precision", "progress")  # of a search


class InvariantNetwork(LabelledLearner):
    """A network averaged over transformations of its input, whose half-widths are learned.

    The half-widths maximise a lower bound on the Laplace log evidence of the training images; see
    :mod:`symmetries.learners.invariant_network`.

    Args:
        module: images (N, C, H, W) to logits or values (N, K); trained in place, from the weights
            it has.
        action: transformations with continuous parameters: a group, its name, such as "rotation",
            or its action on images.
        shape: (C, H, W) of the images; None is that of the images it is fitted to.
        config: a preset, "quick", "default" or "paper", or an :class:`InvariantNetworkConfig`.
        seed: random seed of training.

    Example:
        >>> network = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
        >>> model = InvariantNetwork(network, "rotation", (1, 8, 8), "quick")
        >>> model(torch.rand(5, 1, 8, 8)).shape
        torch.Size([5, 3])
    """

    name = "invariant_network"
    kind = InvariantNetworkConfig
    config: InvariantNetworkConfig

    def __init__(
        self,
        module: nn.Module,
        action: Action | Group[Any] | str,
        shape: tuple[int, int, int] | None = None,
        config: InvariantNetworkConfig | str = "default",
        *,
        seed: int = 0,
    ) -> None:
        super().__init__(action, shape or (1, 1, 1), 0, config, seed)
        check_whole(seed, "seed", least=0)
        check_module(module, "module")
        if self.group.finite:
            remedy = "take one such as 'rotation', or RelaxedEquivariance for finite groups"
            raise invalid("action", "a group with continuous parameters", repr(self.group), remedy)
        check_layers(module)
        c = self.config
        if shape is not None:
            self.outputs = count_outputs(module, shape, c.likelihood)
        widths = [c.half_width * bound for bound in self.group.bounds]
        box = UniformBox(self.group, widths, constraint="reflect", learn=c.learn)
        options = {"samples": c.samples, "sampling": c.sampling, "action": self.act}
        self.network = OrbitAverage(module, box, **options)  # type: ignore[arg-type]
        self.layers, self.trained = layer_names(module), frozenset(trained(module))
        start = torch.full((len(self.layers),), c.evidence.prior_precision).log()
        self.register_buffer("log_precision", start)
        self.register_buffer("log_noise", torch.zeros(()))
        self.register_buffer("log_evidence", torch.full((), torch.nan))
        self.register_buffer("effective_parameters", torch.zeros(()))
        self.log_precision: Tensor
        self.log_noise: Tensor
        self.log_evidence: Tensor
        self.register_buffer("width_moments", torch.zeros(2, self.group.dim))
        self.effective_parameters: Tensor
        self.width_moments: Tensor
        self.profiles: list[WidthProfile] = []
        self.class_widths: ClassWidths | None = None
        self.class_profiles: list[list[WidthProfile]] = []
        self.eval()

    @property
    def bounds(self) -> tuple[float, ...]:
        """Natural bounds of the parameters."""
        return self.group.bounds

    @property
    def module(self) -> nn.Module:
        """The network that is averaged."""
        return self.network.module

    @property
    def noise(self) -> Tensor:
        """Standard deviation of the Gaussian likelihood."""
        return self.log_noise.exp()

    def layer_index(self, name: str) -> int:
        """Return the number of the layer that owns a parameter of the network."""
        return self.layers.index(layer_of(name))

    def penalty(self) -> Tensor:
        """theta^T Delta theta / 2, as a function of the weights."""
        total = torch.zeros((), device=self.device)
        for name, value in self.module.named_parameters():
            if name in self.trained:  # inside torch.vmap no tensor says that it requires gradients
                precision = self.log_precision[self.layer_index(name)].exp()
                total = total + 0.5 * precision * value.square().sum()
        return total

    def evidence(self) -> LaplaceEvidence:
        """Return the Laplace evidence at the weights, precisions and noise as they are."""
        precision = dict(zip(self.layers, self.log_precision.exp(), strict=True))
        shares = None if self.class_widths is None else self.class_widths.shares
        return LaplaceEvidence(
            self.module, self.act, self.config.likelihood, precision, self.noise, shares
        )

    def spread(self, noise: Tensor, width: Tensor) -> Tensor:
        """Return transformations from noise (S, dim), for all boxes if classes have their own."""
        return (
            noise * width if self.class_widths is None else self.class_widths.spread(noise, width)
        )

    def averaged(self, images: Tensor, eta: Tensor) -> Tensor:
        """Return outputs (N, K) averaged over transformations from :meth:`spread`."""
        shares = None if self.class_widths is None else self.class_widths.shares(len(eta))
        return self.network.average(images, self.group.exp(eta), shares)

    @torch.no_grad()
    def estimated_evidence(
        self, images: Tensor, targets: Tensor, seed: int = 0
    ) -> tuple[Tensor, Tensor]:
        """Return the log evidence of training images; see :meth:`LaplaceEvidence.estimate`."""
        x, y = images.to(self.device), targets.to(self.device)
        generator = torch.Generator(self.device).manual_seed(seed)
        evidence, eta = self.evidence(), self.eta(max(self.config.samples, EVENLY))
        weights = sum(value.numel() for value in evidence.weights.values())
        enough = ROWS * round(float(self.effective_parameters))
        rows = max(self.config.evidence.curvature_rows, min(enough, LARGEST // weights))
        return evidence.estimate(x, y, eta, self.outputs, rows, generator)

    def eta(self, samples: int, seed: int = 0) -> Tensor:
        """Evenly spread transformations (samples, dim) of the learned box; one if it is a point.

        With one parameter these are the midpoints of equal parts of its range. So many follow for
        each class with half-widths of its own.
        """
        box, sampling = self.network.box, self.config.sampling
        point = self.class_widths is None and not bool(box.half_width.any())
        samples = 1 if point else samples
        if self.group.dim == 1 and sampling != "grid":
            parts = torch.arange(samples, dtype=box.free.dtype, device=box.free.device)
            return self.spread((2 * parts[:, None] + 1) / samples - 1, box.half_width)
        generator = torch.Generator(box.free.device).manual_seed(seed)
        noise = box.noise(samples, "grid" if sampling == "grid" else "sobol", generator)
        return self.spread(noise, box.half_width)

    def forward(self, x: Tensor) -> Tensor:
        """Return the averaged outputs (N, K) for images (N, C, H, W)."""
        check_image_shape(x, self.shape, "x")
        eta = self.eta(self.config.samples)
        return torch.cat([self.averaged(part, eta) for part in x.split(EVALUATED)])

    def fit(
        self,
        data: Labelled,
        **run: Any,  # noqa: ANN401 - fields of TrainConfig
    ) -> History:
        """Learn weights and half-widths from labelled images, without a validation set.

        The search of half-widths comes first; an interrupted one goes on with its candidates.

        Args:
            data: a set of labelled images, images (N, C, H, W) and targets: class numbers (N,) or
                values (N, K), or a loader of such pairs, which is read once.
            run: fields of :class:`symmetries.training.TrainConfig`, such as ``out``, ``resume``,
                ``device``, ``progress`` and ``log_every``.
        """
        images, targets = self._checked(data)
        options = run_options(run)
        searches = self.config.learn and self.config.evidence.search > 0
        if searches:
            few = {name: options[name] for name in SHARED if name in options}
            self.class_widths, self.class_profiles = None, []  # of a fit before this one
            self.profiles = search_widths(self, images, targets, title="search of widths", **few)
            used = torch.tensor([profile.used for profile in self.profiles])
            self.network.box.set_half_width(used)
            if self.config.by_class:
                self.class_profiles, own = search_classes(self, images, targets, **few)
                self.class_widths = ClassWidths(self.outputs, own) if own else None
        learn = self.config.learn and not searches
        self.history = fit_alone(train_jobs(self, images, targets, options, learn=learn))
        self.eval()
        self._warn_of_few_rows(len(images))
        return self.history

    @torch.no_grad()
    def summary(
        self, data: Labelled, *, most: int = 1000, samples: int | None = None, seed: int = 0
    ) -> NetworkSummary:
        """Return the half-widths, the bound on the evidence and the accuracy on labelled images.

        Args:
            data: a set of labelled images, or images (N, C, H, W) and targets.
            most: number of images to look at, a random choice.
            samples: number of transformations; None is that of the training.
            seed: random seed of the transformations.
        """
        check_whole(most, "most")
        samples = self.config.samples if samples is None else samples
        images, targets = (some_of(part, most).to(self.device) for part in self._checked(data))
        evidence, eta = self.evidence(), self.eta(samples, seed)
        generator = torch.Generator(self.device).manual_seed(seed)
        rows = self.config.evidence.curvature_rows
        known = evidence.sampled_posterior(images, eta, self.outputs, rows, generator)
        outputs = self(images)
        if self.config.likelihood == "categorical":
            score = (outputs.argmax(1) == targets).float().mean()
        else:
            score = (outputs - targets).square().mean()
        gammas = dict.fromkeys(self.layers, 0.0)
        sizes = {name: value.numel() for name, value in evidence.weights.items()}
        for name, part in zip(sizes, known.retained().split(list(sizes.values())), strict=True):
            gammas[layer_of(name)] += float(part.sum())
        side, widths = max(self.shape[1:]), self.network.box.half_width.tolist()
        pairs = zip(self.group.parameters, widths, strict=True)
        shown = {parameter.name: parameter.display(width, side) for parameter, width in pairs}
        return NetworkSummary(
            images=len(images),
            half_widths={name: value for name, (value, _) in shown.items()},
            units={name: unit for name, (_, unit) in shown.items()},
            log_evidence=float(evidence.total(images, targets, eta, known)) / len(images),
            log_likelihood=float(evidence.fit(images, targets, eta)) / len(images),
            score=float(score),
            precisions=dict(zip(self.layers, self.log_precision.exp().tolist(), strict=True)),
            effective_parameters=gammas,
        )

    def meta(self) -> dict[str, Any]:
        """Return settings; the network's code is the user's, see :meth:`load`."""
        own: dict[str, Any] = {"profiles": [p.to_dict() for p in self.profiles]}
        own["class_profiles"] = [[p.to_dict() for p in each] for each in self.class_profiles]
        if self.class_widths is not None:
            own["class_widths"] = self.class_widths.pairs()
        return {**super().meta(), **acting_meta(self), **own}

    @classmethod
    def load(  # type: ignore[override]
        cls, folder: Path | str, module: nn.Module, device: torch.device | str = "cpu"
    ) -> Self:
        """Read what :meth:`save` wrote, into a module of the same structure."""
        state, meta = load_learner(folder, cls.name, cls.__name__)
        shape, config = tuple(meta["shape"]), cls.kind.from_dict(meta["config"])
        model = cls(module, stored_action(meta), shape, config, seed=meta["seed"])
        try:
            model.load_state_dict(state)
        except RuntimeError as error:
            first = str(error).strip().splitlines()[-1].strip()
            remedy = "build it as it was when it was saved"
            raise invalid("module", "a network like the saved one", first, remedy) from error
        model.profiles = [WidthProfile.from_dict(part) for part in meta.get("profiles", [])]
        model.class_profiles = [
            [WidthProfile.from_dict(part) for part in each]
            for each in meta.get("class_profiles", [])
        ]
        if meta.get("class_widths"):
            model.class_widths = ClassWidths(model.outputs, dict(meta["class_widths"]))
        return model.to(device)

    def _warn_of_few_rows(self, examples: int) -> None:
        """Warn if the bound has room for few more weights than the examples determine."""
        rows, gamma = self.config.evidence.curvature_rows, float(self.effective_parameters)
        if rows < examples * self.outputs and gamma > rows / 2:
            text = (
                f"curvature_rows: expected more than twice the {gamma:.0f} weights that the images "
                f"determine, got {rows}: the bound is loose and may misplace the widths; raise it"
            )
            warnings.warn(text, RuntimeWarning, stacklevel=3)

    def _checked(self, data: Labelled) -> tuple[Tensor, Tensor]:
        given = images_and_labels(data, "data")  # a loader is read once
        if not self.outputs:
            check_images(given[0])
            self.shape = (given[0].shape[1], given[0].shape[2], given[0].shape[3])
            self.outputs = count_outputs(self.module, self.shape, self.config.likelihood)
        images, targets = labelled_images(given, self.shape)
        if self.config.likelihood == "categorical":
            if targets.is_floating_point():
                remedy = "give int64 class numbers, or config.replace(likelihood='gaussian')"
                raise invalid("labels", "class numbers", f"{targets.dtype} numbers", remedy)
            check_class_range(targets, self.outputs)
            if len(targets.unique()) < 2:
                remedy = "add examples of others: one class says nothing about invariance"
                raise invalid("labels", "at least two classes", "one class only", remedy)
        elif targets.shape != (len(images), self.outputs) or not targets.is_floating_point():
            got = f"shape {tuple(targets.shape)}, {targets.dtype}"
            expected = f"floats ({len(images)}, {self.outputs})"
            raise invalid("labels", expected, got, "give values of each output, or use classes")
        return images, targets
