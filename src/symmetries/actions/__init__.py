"""Actions of groups on data: images, colours, signals, points, nodes, items and volumes."""

from typing import TYPE_CHECKING

from symmetries._utils.lazy import lazy_names

if TYPE_CHECKING:
    from symmetries.actions.base import Action as Action
    from symmetries.actions.colours import ColourAction as ColourAction
    from symmetries.actions.images import ImageAction as ImageAction
    from symmetries.actions.nodes import NodeAction as NodeAction
    from symmetries.actions.permute import PermutationAction as PermutationAction
    from symmetries.actions.permute import SequenceAction as SequenceAction
    from symmetries.actions.points import PointAction as PointAction
    from symmetries.actions.signals import SignalAction as SignalAction
    from symmetries.actions.volumes import VolumeAction as VolumeAction

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
