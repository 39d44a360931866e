"""Whether a call is part of ``torch.export``."""

import torch


def exporting() -> bool:
    """Return whether this call is part of ``torch.export``."""
    # The flag itself (from torch 2.7 on): under torch.compile some versions of is_exporting()
    # answer True.
    return bool(getattr(torch.compiler, "_is_exporting_flag", False))
