"""The orbit posterior: what can be asked of it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self

import torch
from torch import Tensor, nn

from symmetries._utils.sampling import some_of
from symmetries._validation.checks import as_path, check_image_shape, check_whole, invalid
from symmetries.actions.base import Action
from symmetries.actions.resolve import as_image_action
from symmetries.data.base import ImageSet, images_to_learn
from symmetries.groups.base import Group
from symmetries.learners.base import LearnerModule, run_options
from symmetries.learners.orbit_posterior.accepted_pictures import (
    check_picture_shape,
    first_copies,
    pictures_to_learn,
)
from symmetries.learners.orbit_posterior.building import blurs_of, build_networks, build_view
from symmetries.learners.orbit_posterior.canonical import Poses, computed, find_poses
from symmetries.learners.orbit_posterior.chart import Chart
from symmetries.learners.orbit_posterior.config import OrbitConfig
from symmetries.learners.orbit_posterior.findings import OrbitFindings, findings
from symmetries.learners.orbit_posterior.fitting import fit_folds, fold_of, resident, shrunk
from symmetries.learners.orbit_posterior.frames import Frame, channel_offsets, find_frame
from symmetries.learners.orbit_posterior.networks import PoseNetwork
from symmetries.learners.orbit_posterior.pose_views import own_variance
from symmetries.learners.orbit_posterior.reading import Densities, read
from symmetries.learners.orbit_posterior.storing import built_from_meta, stored_meta
from symmetries.learners.orbit_posterior.summary import OrbitSummary, summarise
from symmetries.learners.orbit_posterior.versions import draw_versions, drawn_at, new_versions
from symmetries.training import History, load_learner, save_model
from symmetries.training.checkpoint import rebuilding
from symmetries.training.resume import stored_threads
from symmetries.training.side_by_side import threads_of_a_fit, torch_threads

LOOKED_AT = 4096
FEW_PICTURES, VERY_FEW = 1500, 600  # below, every one counts
MOST_FOLDS, MANY_FOLDS, FEW_FOLDS = 7, 4, 2


def folds_for(count: int) -> int:
    """How many folds that many pictures are cut into: the fewer, the more of them a fit sees."""
    if count < VERY_FEW:
        return MOST_FOLDS
    return MANY_FOLDS if count < FEW_PICTURES else FEW_FOLDS


class OrbitPosterior(LearnerModule):
    r"""Which poses of a picture occur in the data: the density along its orbit.

    Moves r are drawn from a known law pi, a network sees y = T_r x, and q(r | y) is fitted by
    maximum likelihood. Where T is an action and nothing leaves the frame,

    .. math:: q(r | y) \propto \pi(r)\, \ell(T_r^{-1} y),

    with l the density of the data along the orbit (with respect to left Haar measure), so that
    q / pi at y = x is the density of the poses of x. There are no prototypes, and every picture
    gives any number of pairs (r, T_r x) to learn from. The data are cut into folds, and the
    pictures of a fold are read by a fit that has not seen them.

    Args:
        action: how the transformations to look for move pictures: an ``ImageAction``, a group or
            its name.
        shape: (C, H, W) of the pictures, at least 8 x 8.
        config: a preset, "quick" or "default", or an :class:`OrbitConfig`.
        seed: of the initial weights, the folds and of training.
        reach: by name, how far random moves go at least; they go further where the data do.
        backbone: called for each fold, makes a module from views to features.

    Example:
        >>> model = OrbitPosterior("rotation", (1, 16, 16), "quick")
        >>> model.sample(torch.rand(4, 1, 16, 16), 3).shape
        torch.Size([4, 3, 1, 16, 16])
    """

    def __init__(
        self,
        action: Action | Group[Any] | str,
        shape: tuple[int, int, int],
        config: OrbitConfig | str = "default",
        seed: int = 0,
        *,
        reach: Mapping[str, float] | None = None,
        backbone: Any = None,  # noqa: ANN401 - a function without arguments that makes a module
    ) -> None:
        super().__init__()
        action = as_image_action(action)
        check_picture_shape(shape)
        self.action = self.act = action
        self.shape, self.seed = tuple(shape), seed
        self.config = OrbitConfig.resolve(config)
        self.make_backbone = backbone
        self.frame = Frame(True, float(action.fill), 1.0)
        self.ground = (0.0,) * shape[0]  # of a coloured background: what networks do not see
        self.levels = (0.0, 1.0)
        self.fold_count = self.config.folds or MANY_FOLDS
        self.fitted = False
        self.history: History | None = None
        self.given_reach = dict(reach or {})
        self.poses: Poses | None = None
        self.kept_threads: int | None = None
        self.first = torch.empty(0, dtype=torch.int64)  # copy of each picture
        self.rebuild(Chart(action.group, self.config.bins, reach))

    def rebuild(self, chart: Chart) -> None:
        """New views and networks for a chart."""
        self.chart = chart
        self.view = build_view(self, chart)
        device = next(self.parameters()).device if hasattr(self, "fits") else torch.device("cpu")
        fits = build_networks(self)
        self.smaller_fit = fits.pop()
        self.fits: Sequence[PoseNetwork] = nn.ModuleList(fits)  # type: ignore[assignment]
        self.gains = [0.0] * self.fold_count
        self.rises = [0.0] * self.fold_count
        self.drifts: dict[str, float] = {}
        self.outer: dict[str, float] = {}
        self.to(device).eval()

    def would_be_too_small(self, chart: Chart) -> bool:
        """Whether the window that is valid for all moves of a chart would be tiny."""
        return build_view(self, chart).too_small

    def fit(
        self,
        images: Tensor | ImageSet,
        *,
        out: Path | str | None = None,
        resume: bool = False,
        device: str = "auto",
        precision: str = "32-true",
        progress: bool = True,
        **more: Any,  # noqa: ANN401 - fields of TrainConfig
    ) -> History:
        """Learn q(r | y) on every fold, in rounds until the held-out likelihood has settled.

        Args:
            images: (N, C, H, W), values in [0, 1] or near, or a set; at least 64 different ones.
            out: folder for checkpoints and metrics, a sub-folder for each round.
            resume: go on from the checkpoints in ``out``.
            device: "auto", "cpu", "cuda", ...
            precision: see :class:`symmetries.training.TrainConfig`.
            progress: show a bar.
            more: further fields of a run, such as ``log_every``, ``devices`` and ``nodes``.
        """
        more = run_options(more)
        small = self.prepared(images, self.config.folds)
        self.kept_threads = stored_threads(as_path(out, "out")) if resume and out else None
        run = {"out": out, "resume": resume, "device": device, "precision": precision}
        self.history = fit_folds(self, small, {**run, "progress": progress, **more})
        self.fitted = True
        self.eval()
        return self.history

    def prepared(self, images: Tensor | ImageSet, folds: int | None = None) -> Tensor:
        """Pictures as networks see them; frame, levels and reach follow them, networks are new."""
        data = pictures_to_learn(images, self.shape)
        self.first = first_copies(data)
        self.ground = (0.0,) * self.shape[0]
        small = self.seen(data)
        if self.chart.colours is None:
            self.ground = channel_offsets(small, float(self.action.fill))
            small = small - self.ground_of(small)
        some = some_of(small, LOOKED_AT)
        self.levels = (float(some.mean()), float(some.std().clamp_min(1e-6)))
        self.fold_count = folds or folds_for(len(data))
        self.frame = find_frame(some, float(self.action.fill))
        reach, self.poses = dict(self.given_reach), None
        if computed(self.chart, self.frame.plain):
            share = self.share
            pixel = share**2 / 12 + (1 / 6 if share < 1 else 0.0)  # of the data's and of shrinking
            variance = own_variance(self.action, blurs_of(self), pixel)
            self.poses = find_poses(self.frame.content(some), self.chart, variance, pixel)
            reach |= {name: 2 * far for name, far in self.poses.reach.items()}
        self.rebuild(Chart(self.chart.group, self.config.bins, reach))
        return small

    def set_reach(self, reach: Mapping[str, float]) -> None:
        """Another range of moves, by name, in which densities are shown: networks stay."""
        given = {name: max(far, self.given_reach.get(name, 0.0)) for name, far in reach.items()}
        self.chart = self.view.chart = self.chart.wider(given)

    @property
    def weighted(self) -> bool:
        """Whether moves are drawn from a law that is not Haar measure, and need weights."""
        return self.poses is None and self.chart.weighted

    def seen(self, images: Tensor) -> Tensor:
        """Pictures as networks see them: shrunk, in single precision, on one value around them."""
        small = shrunk(images.float(), self.config.network.largest)
        return small - self.ground_of(small) if any(self.ground) else small

    def ground_of(self, images: Tensor) -> Tensor:
        """What a coloured background adds to each channel, (C, 1, 1)."""
        return images.new_tensor(self.ground)[:, None, None]

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return next(self.fits[0].parameters()).device

    @property
    def threads(self) -> int:
        """Threads of fits and densities: on a CPU by its cores, and kept by a run that resumes."""
        if not self.shares_cores:
            return torch.get_num_threads()
        return self.kept_threads or threads_of_a_fit()

    @property
    def shares_cores(self) -> bool:
        """Whether fits may run side by side: on a CPU or a GPU, with networks that draw no numbers.

        A backbone from elsewhere may draw from the global generator, which threads share.
        """
        return self.device.type in ("cpu", "cuda") and self.make_backbone is None

    def densities(self, images: Tensor, fold: int = 0, seed: int = 0) -> list[Densities]:
        """Densities of the moves that take pictures (N, C, H, W) to other poses, by one fit.

        One entry for each coordinate of ``chart``.
        """
        check_image_shape(images, self.shape)
        small = self.seen(images)
        return read(self, self.fits[fold], small, seed)

    @torch.no_grad()
    def sample(
        self,
        images: Tensor,
        copies: int = 1,
        generator: torch.Generator | None = None,
        fold: int = 0,
    ) -> Tensor:
        """New versions (N, copies, C, H, W) of pictures: T_r^-1 x with r ~ q(. | x) / pi.

        Args:
            images: (N, C, H, W).
            copies: of each.
            generator: source of randomness, on the CPU.
            fold: of the fit that is asked.
        """
        check_whole(copies, "copies")
        every = images.repeat_interleave(copies, 0)
        found = draw_versions(self, every, fold, *drawn_at(len(every), generator))
        versions: Tensor = found.unflatten(0, (len(images), copies))
        return versions

    def augment(self, batch: Tensor, generator: torch.Generator | None = None) -> Tensor:
        """One new version of each image (N, C, H, W): a transform for any training loop."""
        return new_versions(self, batch, 1, generator)[:, 0]

    def summary(self, images: Tensor | ImageSet, *, seed: int = 0) -> OrbitSummary:
        """Widths, intervals and verdicts; the pictures must be those of the fit, in their order."""
        small = self._to_read(images)
        with torch_threads(self.threads):
            return summarise(self, small, seed)[0]

    def findings(
        self,
        images: Tensor | ImageSet,
        labels: Tensor | None = None,
        class_names: Sequence[str] | None = None,
        *,
        examples: int = 8,
        seed: int = 0,
    ) -> OrbitFindings:
        """The summary and the pictures behind it: all that a report needs, in plain numbers.

        Args:
            images: those of the fit, in their order.
            labels: (N,) for widths by class; those of the set by default.
            class_names: of the labels.
            examples: how many of the surest and of the least sure pictures.
            seed: of views, samples and the bootstrap.
        """
        if isinstance(images, ImageSet):
            labels = images.labels if labels is None else labels
            class_names = images.class_names if class_names is None else class_names
        small = self._to_read(images)
        with torch_threads(self.threads):
            return findings(self, small, labels, class_names, examples=examples, seed=seed)

    @property
    def few(self) -> bool:
        """Whether there are so few pictures that every one counts."""
        return self.fold_count > FEW_FOLDS

    @property
    def smaller_share(self) -> float:
        """Share of a fit's pictures that the smaller one learns from; more, if they are few."""
        return 2 / 3 if self.few else 1 / 2

    def folds(self, count: int) -> Tensor:
        """The fold (N,) of each of that many pictures: its fit has not seen them."""
        return fold_of(count, self.fold_count, self.seed, self.first)

    def save(self, folder: Path | str) -> Path:
        """Write the model: weights and what is needed to build it again."""
        return save_model(folder, self, self.meta())

    def meta(self) -> dict[str, Any]:
        """What :meth:`from_meta` needs to build the model again, but for its weights."""
        return stored_meta(self)

    @classmethod
    def load(cls, folder: Path | str, device: torch.device | str = "cpu") -> Self:
        """Read what :meth:`save` wrote."""
        state, meta = load_learner(folder, "orbit_posterior", "orbit posterior")
        with rebuilding(folder, "an orbit posterior"):
            model = cls.from_meta(meta)
            model.load_state_dict(state)
        return model.to(device)

    @classmethod
    def from_meta(cls, meta: Mapping[str, Any]) -> Self:
        """A model as :meth:`meta` describes it, with new weights."""
        return built_from_meta(cls, meta)

    def _to_read(self, images: Tensor | ImageSet) -> Tensor:
        """The pictures of the fit, shrunk, on the device of the model where they fit."""
        if not self.fitted:
            raise invalid("model", "one that was fitted", "a new one", "call fit(images) first")
        data = images_to_learn(images, self.shape)
        self.first = first_copies(data)
        return resident(self.seen(data), self.device)

    @property
    def share(self) -> float:
        """Pixels that networks see for each of the data."""
        return min(1.0, self.config.network.largest / max(self.shape[1:]))
