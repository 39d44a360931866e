"""Data as users have it, for audits: tensors, arrays, image sets and data loaders."""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader

from symmetries._validation.checks import invalid, wrong_type
from symmetries._validation.loading import gather_batches, label_tensor, native
from symmetries.auditing.models import Model


class LabelledImages(Protocol):
    """Images with labels, such as :class:`symmetries.data.ImageSet`."""

    @property
    def images(self) -> Tensor:
        """(N, C, H, W)."""

    @property
    def labels(self) -> Tensor | None:
        """(N,) or None."""


Inputs = Tensor | NDArray[Any] | LabelledImages | DataLoader[Any]
Labelled = tuple[Tensor | NDArray[Any], Tensor | NDArray[Any]] | LabelledImages | DataLoader[Any]


class Upcoming:
    """Rows of inputs on a device; while a GPU computes, the next ones are copied there.

    Rows in the host's memory are copied by another thread, through pinned memory, on a stream of
    its own. The next rows are taken to be as many as those that were asked for last.

    Args:
        x: (N, ...).
        device: where rows go.

    Example:
        >>> Upcoming(torch.arange(5.0), torch.device("cpu"))(1, 3).tolist()
        [1.0, 2.0]
    """

    def __init__(self, x: Tensor, device: torch.device) -> None:
        self.x, self.device = x, device
        self._ahead: dict[tuple[int, int], Future[tuple[Tensor, torch.cuda.Event]]] = {}
        self._pool: ThreadPoolExecutor | None = None
        if device.type == "cuda" and not x.is_cuda:
            self._pool, self._side = ThreadPoolExecutor(1), torch.cuda.Stream(device)

    def __call__(self, start: int, stop: int) -> Tensor:
        """Return rows start, ..., stop - 1."""
        if self._pool is None:
            return self.x[start:stop].to(self.device)
        copy = self._pool.submit
        found = self._ahead.pop((start, stop), None) or copy(self._copied, start, stop)
        then = (stop, min(2 * stop - start, len(self.x)))
        self._ahead = {then: copy(self._copied, *then)} if stop < len(self.x) else {}
        rows, arrived = found.result()
        now = torch.cuda.current_stream(self.device)
        now.wait_event(arrived)
        rows.record_stream(now)
        return rows

    def _copied(self, start: int, stop: int) -> tuple[Tensor, torch.cuda.Event]:
        with torch.cuda.stream(self._side):
            rows = self.x[start:stop].pin_memory().to(self.device, non_blocking=True)
            return rows, self._side.record_event()


def _parts(data: Any) -> Any:  # noqa: ANN401 - whatever the user gives
    """Return a pair of inputs and labels where the data is an image set or a loader."""
    if isinstance(data, DataLoader):
        return gather_batches(data)
    if hasattr(data, "images") and hasattr(data, "labels"):
        return data.images, data.labels
    return data


def inputs_of(data: Any, model: Model) -> Tensor:  # noqa: ANN401 - whatever the user gives
    """Return the inputs (N, ...) as a tensor; anything else as it is, for the caller to check.

    Args:
        data: a tensor, an array, an ``ImageSet`` or a ``DataLoader``.
        model: decides the dtype of arrays of floats: float64 for a model of float64, torch's
            default dtype for others.
    """
    found = _parts(data)
    inputs: Tensor = found if found is data else found[0]
    return _inputs(inputs, _float_dtype(model)) if isinstance(inputs, np.ndarray) else inputs


def labelled_inputs(data: "Labelled | Inputs", model: Model) -> tuple[Tensor, Tensor | None]:
    """Return inputs (N, ...) and class numbers (N,) as tensors; None where there are no labels.

    Args:
        data: inputs alone, a pair of inputs and labels, an ``ImageSet``, or a ``DataLoader``.
        model: decides the dtype of arrays of floats.
    """
    found = _parts(data)
    if isinstance(found, Tensor | np.ndarray):
        found = (found, None)
    if not isinstance(found, tuple | list) or len(found) != 2:
        remedy = "give inputs, or a pair of inputs and labels"
        raise wrong_type("data", "inputs (N, ...), or a pair (x, y)", found, remedy)
    x, y = found
    x = inputs_of(x, model)
    y = label_tensor(y) if isinstance(y, np.ndarray) else y
    if y is not None and not isinstance(y, Tensor):
        raise wrong_type("y", "a tensor of class numbers", y, "use torch.tensor")
    if isinstance(x, Tensor) and len(x) < 2:
        raise invalid("x", "at least 2 examples", len(x), "give more examples")
    return x, y


def _float_dtype(model: Model) -> torch.dtype:
    """Return the dtype for arrays of floats: float64 if the model has it, else torch's default."""
    parameters = model.parameters() if isinstance(model, nn.Module) else iter(())
    own = next((one.dtype for one in parameters if one.is_floating_point()), None)
    return torch.float64 if own == torch.float64 else torch.get_default_dtype()


def _inputs(values: NDArray[Any], dtype: torch.dtype) -> Tensor:
    """Return an array of inputs as a tensor of ``dtype``."""
    kind, got = values.dtype.kind, values.dtype.name
    if kind == "f":
        return torch.tensor(native(values), dtype=dtype)
    if kind == "c":
        return torch.tensor(native(values))  # what is said of complex tensors suits it
    remedy = "use x.astype('float32') / 255"
    if kind not in "iub":
        remedy = "use x.astype('float32'), with all examples of one shape"
    elif got != "uint8":
        remedy += " if they are bytes, x.astype('float32') otherwise"
    raise invalid("x", "floats in [0, 1]", got, remedy)
