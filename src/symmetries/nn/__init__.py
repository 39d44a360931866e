"""Layers and networks, independent of losses and data."""
