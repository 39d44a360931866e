"""Ensembles with stacked parameters, evaluated at once by ``torch.vmap``."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from symmetries._validation.checks import invalid
from symmetries.training.batches import Batch
from symmetries.training.stacked_rng import StackedRng
from symmetries.training.step import Step, Steps
from symmetries.training.update import Metrics

if TYPE_CHECKING:
    from symmetries.training.ensemble import TrainJob


class Ensemble(nn.Module):
    """The models of several jobs, with their parameters and buffers stacked along a first axis.

    The models' own parameters become views of the stacked ones, so they can be read during
    training.

    Args:
        jobs: jobs with models of one architecture.
    """

    def __init__(self, jobs: Sequence["TrainJob"]) -> None:
        super().__init__()
        shared = [all(job.reads[i] is read for job in jobs) for i, read in enumerate(jobs[0].reads)]
        self.runs = tuple(_Run(job, shared) for job in jobs)
        self.names: dict[str, str] = {}
        parameters = [dict(run.named_parameters()) for run in self.runs]
        buffers = [dict(run.named_buffers()) for run in self.runs]
        kept = self.runs[0].state_dict().keys()
        for name, first in parameters[0].items():
            stacked = _stack([own[name] for own in parameters], name)
            trained = first.requires_grad and name.startswith("model.")
            self.register_parameter(self._key(name), nn.Parameter(stacked, trained))
        for name in buffers[0]:
            stacked = _stack([own[name] for own in buffers], name)
            self.register_buffer(self._key(name), stacked, persistent=name in kept)
        self._tie()

    def forward(self, batch: Batch, step: Steps) -> Metrics:
        """Return the sum of the losses, and each model's own terms as "NAME.NUMBER"."""
        run = self.runs[0]

        def one(state: dict[str, Tensor], member: Tensor, batch: Batch) -> Mapping[str, Tensor]:
            with StackedRng(step, member):
                terms: Mapping[str, Tensor] = torch.func.functional_call(run, state, (batch, step))
                return dict(terms)

        state = {name: self.get(key) for name, key in self.names.items()}
        members = torch.arange(len(self.runs), device=step.device)
        with _buffers_kept(run):
            terms = torch.vmap(one, randomness="error")(state, members, batch)
        each = {
            f"{name}.{r}": value
            for name, values in terms.items()
            for r, value in enumerate(values.detach().unbind(0))
        }
        return {"loss": terms["loss"].sum(), **each}

    def get(self, key: str) -> Tensor:
        """Return a stacked parameter or buffer."""
        found = self._parameters.get(key)
        return self._buffers[key] if found is None else found  # type: ignore[return-value]

    def groups(self, job: "TrainJob") -> list[dict[str, Any]] | None:
        """Return the parameter groups of the first job, with stacked parameters."""
        if job.param_groups is None:
            return None
        own = {id(p): self._parameters[self.names[n]] for n, p in self.runs[0].named_parameters()}
        return [
            {**group, "params": [own[id(p)] for p in group["params"]]} for group in job.param_groups
        ]

    def train(self, mode: bool = True) -> "Ensemble":
        """Set the training mode of the models."""
        super().train(mode)
        for run in self.runs:
            run.model.train(mode)
        return self

    def separate(self) -> None:
        """Give each model its own memory."""
        for run in self.runs:
            for parameter in run.parameters():
                parameter.data = parameter.data.clone()
            for holder, leaf, buffer in _buffers(run):
                holder._buffers[leaf] = buffer.clone()

    def _key(self, name: str) -> str:
        self.names[name] = name.replace(".", "/")  # torch forbids dots in names
        return self.names[name]

    def _tie(self) -> None:
        for r, run in enumerate(self.runs):
            for name, parameter in run.named_parameters():
                parameter.data = self.get(self.names[name]).detach()[r]
            names = iter([name for name, _ in run.named_buffers()])
            for holder, leaf, _ in list(_buffers(run)):
                holder._buffers[leaf] = self.get(self.names[next(names)])[r]

    def _apply(self, fn: Any, recurse: bool = True) -> "Ensemble":  # noqa: ANN401 - of torch
        """Apply a change of device or dtype to the stacked tensors and the models."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._tie()
        return self


class _Run(nn.Module):
    """A job as a module that returns its loss, with replaceable parameters and buffers."""

    def __init__(self, job: "TrainJob", shared: Sequence[bool]) -> None:
        super().__init__()
        self.model = job.model
        own = [read for read, same in zip(job.reads, shared, strict=True) if not same]
        self.reads = nn.ModuleList(own)
        self.loss = job.loss

    def forward(self, batch: Batch, step: Step) -> Mapping[str, Tensor]:
        return self.loss(self.model, batch, step)


def _buffers(module: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """Yield each buffer with the module that holds it, in the order of ``named_buffers``."""
    seen: set[int] = set()
    for holder in module.modules():
        for leaf, buffer in holder._buffers.items():
            if buffer is not None and id(buffer) not in seen:
                seen.add(id(buffer))
                yield holder, leaf, buffer


@contextmanager
def _buffers_kept(module: nn.Module) -> Iterator[None]:
    """Restore buffers that a loss assigns, because tensors of vmap are invalid outside it."""
    before = [(holder, dict(holder._buffers)) for holder in module.modules()]
    try:
        yield
    finally:
        for holder, buffers in before:
            holder._buffers.update(buffers)


def _stack(parts: list[Tensor], name: str) -> Tensor:
    shapes = {tuple(part.shape) for part in parts}
    if len(shapes) > 1:
        remedy = "only models of one architecture train as one"
        raise invalid(f"parameter {name!r}", "one shape in all models", sorted(shapes), remedy)
    return torch.stack([part.detach() for part in parts])
