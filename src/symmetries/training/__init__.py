"""Training loop with Lightning Fabric: progress, checkpoints, resumption and ensembles."""

from symmetries.training.atomic_files import FolderInUseError
from symmetries.training.batches import Batch, Data
from symmetries.training.checkpoint import CheckpointError, load_learner, load_state, save_model
from symmetries.training.config import TrainConfig
from symmetries.training.ensemble import Numbers, TrainJob, fit_many, fit_together, train_together
from symmetries.training.history import History
from symmetries.training.log import pruning_hook
from symmetries.training.loop import train
from symmetries.training.recipe import Recipe
from symmetries.training.resume import NonFiniteError
from symmetries.training.step import Step
from symmetries.training.update import LossError

__all__ = [
    "Batch",
    "CheckpointError",
    "Data",
    "FolderInUseError",
    "History",
    "LossError",
    "NonFiniteError",
    "Numbers",
    "Recipe",
    "Step",
    "TrainConfig",
    "TrainJob",
    "fit_many",
    "fit_together",
    "load_learner",
    "load_state",
    "pruning_hook",
    "save_model",
    "train",
    "train_together",
]
