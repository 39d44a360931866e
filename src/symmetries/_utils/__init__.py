"""Small helpers that every part of the package may use."""
