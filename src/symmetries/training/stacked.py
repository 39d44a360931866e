"""Several models with their parameters stacked, evaluated at once by ``torch.vmap``."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from symmetries._validation.checks import invalid
from symmetries.training.batches import Batch
from symmetries.training.stacked_rng import OwnNumbers
from symmetries.training.step import Step, Steps
from symmetries.training.update import Metrics

if TYPE_CHECKING:
    from symmetries.training.ensemble import Job


class Ensemble(nn.Module):
    """The models of several jobs, with their parameters and buffers stacked along a first axis.

    The models' own parameters become views of the stacked ones, so they can be looked at while
    these are trained.

    Args:
        jobs: alike.
    """

    def __init__(self, jobs: Sequence["Job"]) -> None:
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
        """The sum of the losses, and each model's own terms as "NAME.NUMBER"."""
        run = self.runs[0]

        def one(state: dict[str, Tensor], member: Tensor, batch: Batch) -> Mapping[str, Tensor]:
            with OwnNumbers(step, member):
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
        """A stacked parameter or buffer."""
        found = self._parameters.get(key)
        return self._buffers[key] if found is None else found  # type: ignore[return-value]

    def groups(self, job: "Job") -> list[dict[str, Any]] | None:
        """The parameter groups of the first job, of stacked parameters."""
        if job.param_groups is None:
            return None
        own = {id(p): self._parameters[self.names[n]] for n, p in self.runs[0].named_parameters()}
        return [
            {**group, "params": [own[id(p)] for p in group["params"]]} for group in job.param_groups
        ]

    def train(self, mode: bool = True) -> "Ensemble":
        """Set the mode of the models that are trained."""
        super().train(mode)
        for run in self.runs:
            run.model.train(mode)
        return self

    def separate(self) -> None:
        """Give each model memory of its own."""
        for run in self.runs:
            for parameter in run.parameters():
                parameter.data = parameter.data.clone()
            for holder, leaf, buffer in _buffers(run):
                holder._buffers[leaf] = buffer.clone()

    def _key(self, name: str) -> str:
        self.names[name] = name.replace(".", "/")  # torch allows no dots
        return self.names[name]

    def _tie(self) -> None:
        for r, run in enumerate(self.runs):
            for name, parameter in run.named_parameters():
                parameter.data = self.get(self.names[name]).detach()[r]
            names = iter([name for name, _ in run.named_buffers()])
            for holder, leaf, _ in list(_buffers(run)):
                holder._buffers[leaf] = self.get(self.names[next(names)])[r]

    def _apply(self, fn: Any, recurse: bool = True) -> "Ensemble":  # noqa: ANN401 - of torch
        """To another device or precision: the models go with it."""
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self._tie()
        return self


class _Run(nn.Module):
    """A job as a module whose output is its loss, so that all it reads can be replaced."""

    def __init__(self, job: "Job", shared: Sequence[bool]) -> None:
        super().__init__()
        self.model = job.model
        own = [read for read, same in zip(job.reads, shared, strict=True) if not same]
        self.reads = nn.ModuleList(own)
        self.loss = job.loss

    def forward(self, batch: Batch, step: Step) -> Mapping[str, Tensor]:
        return self.loss(self.model, batch, step)


def _buffers(module: nn.Module) -> Iterator[tuple[nn.Module, str, Tensor]]:
    """Each buffer with the module that holds it, in the order of ``named_buffers``."""
    seen: set[int] = set()
    for holder in module.modules():
        for leaf, buffer in holder._buffers.items():
            if buffer is not None and id(buffer) not in seen:
                seen.add(id(buffer))
                yield holder, leaf, buffer


@contextmanager
def _buffers_kept(module: nn.Module) -> Iterator[None]:
    """Put back what a loss sets as a buffer: a tensor of vmap means nothing outside of it."""
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
