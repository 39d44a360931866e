"""Methods by name; each is imported when it is asked for."""

from importlib import import_module

from benchmarks.planted.protocol import Method

NAMES = {
    "two-stage-quick": ("two_stage", "quick"),
    "two-stage-default": ("two_stage", "default"),
    "orbit-quick": ("orbit_posterior", "quick"),
    "orbit-default": ("orbit_posterior", "default"),
    "augerino": ("augerino", "fit"),
    "rotation-classifier": ("rotation_classifier", "plain"),
    "rotation-classifier-held-out": ("rotation_classifier", "held_out"),
}


def method(name: str) -> Method:
    """The method of that name.

    Example:
        >>> method("two-stage-quick").__name__
        'quick'
    """
    if name not in NAMES:
        raise ValueError(f"method: expected one of {', '.join(NAMES)}, got {name!r}")
    module, function = NAMES[name]
    found: Method = getattr(import_module(f"benchmarks.planted.methods.{module}"), function)
    return found
