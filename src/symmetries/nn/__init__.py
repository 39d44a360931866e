"""Layers: no losses, no data."""
