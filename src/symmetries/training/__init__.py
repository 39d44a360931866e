"""Training loop with Lightning Fabric: progress, checkpoints, resumption and ensembles."""

from typing import TYPE_CHECKING

from symmetries._utils.lazy import lazy_names

if TYPE_CHECKING:
    from symmetries.training.atomic_files import FolderInUseError as FolderInUseError
    from symmetries.training.batches import Batch as Batch
    from symmetries.training.batches import Data as Data
    from symmetries.training.checkpoint import CheckpointError as CheckpointError
    from symmetries.training.checkpoint import load_learner as load_learner
    from symmetries.training.checkpoint import load_state as load_state
    from symmetries.training.checkpoint import save_model as save_model
    from symmetries.training.config import TrainConfig as TrainConfig
    from symmetries.training.ensemble import Numbers as Numbers
    from symmetries.training.ensemble import TrainJob as TrainJob
    from symmetries.training.ensemble import fit_many as fit_many
    from symmetries.training.ensemble import fit_together as fit_together
    from symmetries.training.ensemble import train_together as train_together
    from symmetries.training.history import History as History
    from symmetries.training.log import pruning_hook as pruning_hook
    from symmetries.training.loop import train as train
    from symmetries.training.recipe import Recipe as Recipe
    from symmetries.training.resume import NonFiniteError as NonFiniteError
    from symmetries.training.step import Step as Step
    from symmetries.training.update import LossError as LossError

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
