"""The update as one CUDA graph: the same kernels on the same memory, without the launch gaps.

Eager steps first (they are part of the run): libraries set themselves up, Adam makes its state.
Then one trial shows whether the loss can be captured at all: code that waits for the device or
reads the step's number in Python would be frozen or refused. Where it cannot, the run stays eager
and says why. Random numbers follow the seeds set before each replay, as both generators are known
to the graph; indices, learning rate and progress live in fixed tensors that are filled before it.
"""

import warnings

import torch
from torch import Tensor, nn

from symmetries.training.batches import Batch
from symmetries.training.config import TrainConfig
from symmetries.training.step import Step
from symmetries.training.update import Metrics, Update

WARMUP = 3


def wants_graph(config: TrainConfig, device: torch.device, world: int) -> bool:
    """Whether to try: on one CUDA device, unless it is turned off."""
    return config.hardware.graph == "auto" and device.type == "cuda" and world == 1


class GraphedUpdate:
    """An :class:`Update` that becomes a CUDA graph after a few steps.

    Args:
        update: what to capture; its optimiser must have its learning rate in tensors.
        step: of the run; its random numbers are seeded before each call.
        model: whose buffers the trial must leave alone.
    """

    def __init__(self, update: Update, step: Step, model: nn.Module) -> None:
        self.update = update
        self.step = step
        self.model = model
        self.reason = ""  # why the run stays eager, if it does
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        self._inputs: Batch = ()
        self._metrics: Metrics = {}
        step.keep_on_device()

    def __call__(self, inputs: Batch) -> Metrics:
        """Do the step. The tensors returned are overwritten by the next one."""
        if self.reason:
            return self.update(inputs)
        if self._graph is None:
            if self._calls < WARMUP:
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
        """An eager step on a side stream, where capture happens too."""
        main, side = torch.cuda.current_stream(), torch.cuda.Stream()
        side.wait_stream(main)
        with torch.cuda.stream(side), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*capturable=True")
            metrics = self.update(inputs)
        main.wait_stream(side)
        return metrics

    def _trial(self) -> str:
        """Why the gradient cannot be captured, or an empty string. Moves no weight or buffer."""
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
            # Other threads (a loader's) may go on using the device meanwhile.
            # Urgent: branches of the step must not hold up its main line.
            main = torch.cuda.Stream(priority=-1)
            with torch.cuda.graph(graph, stream=main, capture_error_mode="thread_local"):
                self._metrics = self.update(self._inputs)
        except RuntimeError as error:
            error.add_note("while capturing the step as a CUDA graph; graph='off' turns it off")
            raise
        finally:
            self.step.host = True
        return graph
