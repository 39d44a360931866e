"""Functions from data, a learner or an audit to a result, used by the commands and from Python."""

from typing import TYPE_CHECKING

from symmetries._utils.lazy import lazy_names

if TYPE_CHECKING:
    from symmetries.analysis.audits import audit as audit
    from symmetries.analysis.augmentation import augment as augment
    from symmetries.analysis.discovery import discover as discover
    from symmetries.analysis.fits import fit as fit
    from symmetries.analysis.lie_generators import generators as generators
    from symmetries.analysis.orbits import orbit as orbit
    from symmetries.analysis.prescribing import prescribe as prescribe
    from symmetries.analysis.watching import watch as watch
    from symmetries.analysis.wrapping import wrap as wrap

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
