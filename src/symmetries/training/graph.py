"""Capture of the update as a CUDA graph, which removes the gaps between kernel launches.

The first steps run eagerly (they are part of the run), so that libraries initialise and Adam
creates its state. Then a trial capture shows whether the loss can be captured: code that
synchronises with the device or reads the step's number in Python would fail or be frozen. If it
cannot be captured, the run stays eager and a warning says why. Random numbers follow the seeds
set before each replay, because both generators are registered with the graph; indices, learning
rate and progress are in fixed tensors that are filled before each replay.
"""

import warnings

import torch
from torch import Tensor, nn

from symmetries.training.batches import Batch
from symmetries.training.blocks import BlockUpdate
from symmetries.training.config import TrainConfig
from symmetries.training.step import Step
from symmetries.training.update import Metrics, Update

WARMUP = 3


def wants_graph(config: TrainConfig, device: torch.device, world: int) -> bool:
    """Whether to capture a CUDA graph: on one CUDA device, unless it is turned off."""
    return config.hardware.graph == "auto" and device.type == "cuda" and world == 1


class GraphedUpdate:
    """An :class:`Update` that is captured as a CUDA graph after a few steps.

    Args:
        update: the update to capture, of one step or of several; its optimiser must hold the
            learning rate in tensors.
        step: step of the run; its random numbers are seeded before each call.
        model: model whose buffers the trial capture must not change.
        warm_up: eager calls before the capture.
    """

    def __init__(
        self, update: Update | BlockUpdate, step: Step, model: nn.Module, warm_up: int = WARMUP
    ) -> None:
        self.update = update
        self.step = step
        self.model = model
        self.warm_up = warm_up
        self.reason = ""  # reason for staying eager, if any
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: Batch = ()
        self._metrics: Metrics = {}
        step.keep_on_device()

    def __call__(self, inputs: Batch) -> Metrics:
        """Perform the step. The next step overwrites the returned tensors."""
        if self.reason:
            return self.update(inputs)
        if self._graph is None:
            if self._calls < self.warm_up:
                self._calls += 1
                return self._warm_up(inputs)
            self._inputs = tuple(part.clone() for part in inputs)
            self.reason = self._trial()
            if self.reason:
                message = f"the step is not captured as a CUDA graph: {self.reason}"
                warnings.warn(message, RuntimeWarning, stacklevel=2)
                return self.update(inputs)
            self._graph = self._capture()
        else:
            for fixed, part in zip(self._inputs, inputs, strict=True):
                fixed.copy_(part, non_blocking=True)
        self._graph.replay()
        return self._metrics

    def _warm_up(self, inputs: Batch) -> Metrics:
        """Perform an eager step on a side stream, as capture does."""
        main, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(main)
        with torch.cuda.stream(side), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*capturable=True")
            metrics = self.update(inputs)
        main.wait_stream(side)
        return metrics

    def _trial(self) -> str:
        """Return why the gradient cannot be captured, or an empty string; changes no state."""
        buffers = [(buffer, buffer.clone()) for buffer in self.model.buffers()]
        self.step.host = False
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*prototype feature")
                torch.cuda.set_sync_debug_mode("error")
            self.update.gradient(self._inputs)
        except RuntimeError as error:
            return str(error).partition("\n")[0]
        finally:
            torch.cuda.set_sync_debug_mode("default")
            self.step.host = True
            self._restore(buffers)
        return ""

    def _restore(self, buffers: list[tuple[Tensor, Tensor]]) -> None:
        for buffer, before in buffers:
            buffer.copy_(before)
        self.update.clear_gradients()
        self.step.begin(self.step.index)

    def _capture(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self.step.sources():
            graph.register_generator_state(generator)
        self.step.host = False
        try:
            # Other threads (of a loader) may continue to use the device meanwhile.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                self._metrics = self.update(self._inputs)
        except RuntimeError as error:
            error.add_note("while capturing the step as a CUDA graph; graph='off' turns it off")
            raise
        finally:
            self.step.host = True
        return graph
