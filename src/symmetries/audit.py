"""Alias of :mod:`symmetries.auditing`, kept for code written before the package was renamed."""

import sys
import warnings
from types import ModuleType
from typing import Any

from symmetries import auditing
from symmetries.auditing import *  # noqa: F403
from symmetries.auditing import audit_model as audit  # noqa: F401

warnings.warn(
    "symmetries.audit: the package is now symmetries.auditing, and symmetries.audit is the "
    "function; import measures from symmetries.auditing",
    DeprecationWarning,
    stacklevel=2,
)


class _CallableModule(ModuleType):
    """The function ``symmetries.audit(...)`` works even after this module was imported."""

    def __call__(self, *args: Any, **kwargs: Any) -> auditing.AuditResult:  # noqa: ANN401
        from symmetries.analysis import audit as function

        return function(*args, **kwargs)


sys.modules[__name__].__class__ = _CallableModule
