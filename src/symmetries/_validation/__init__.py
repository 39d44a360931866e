"""Argument checks. Errors name the argument, what was expected, what was given, and the remedy."""
