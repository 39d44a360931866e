"""Actions of groups on data: images, colours, signals, points, nodes, items and volumes."""

from symmetries.actions.base import Action
from symmetries.actions.colours import ColourAction
from symmetries.actions.images import ImageAction
from symmetries.actions.nodes import NodeAction
from symmetries.actions.permute import PermutationAction, SequenceAction
from symmetries.actions.points import PointAction
from symmetries.actions.signals import SignalAction
from symmetries.actions.volumes import VolumeAction

__all__ = [
    "Action",
    "ColourAction",
    "ImageAction",
    "NodeAction",
    "PermutationAction",
    "PointAction",
    "SequenceAction",
    "SignalAction",
    "VolumeAction",
]
