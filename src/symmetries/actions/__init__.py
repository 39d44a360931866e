"""How a group moves data: images, colours, signals, points."""

from symmetries.actions.base import Action
from symmetries.actions.colours import ColourAction
from symmetries.actions.images import ImageAction
from symmetries.actions.points import PointAction
from symmetries.actions.signals import SignalAction

__all__ = ["Action", "ColourAction", "ImageAction", "PointAction", "SignalAction"]
