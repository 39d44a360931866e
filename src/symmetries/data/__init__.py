"""Loaders returning tensors, and the papers' derived sets."""
