"""Learn the symmetries of data, build them into models, measure them, sample from them."""

from typing import TYPE_CHECKING

from symmetries._utils.lazy import lazy_names

__version__ = "0.1.0"

if TYPE_CHECKING:
    from symmetries.actions import Action as Action
    from symmetries.actions import ColourAction as ColourAction
    from symmetries.actions import ImageAction as ImageAction
    from symmetries.actions import PointAction as PointAction
    from symmetries.actions import SignalAction as SignalAction
    from symmetries.analysis import audit as audit
    from symmetries.analysis import augment as augment
    from symmetries.analysis import discover as discover
    from symmetries.analysis import fit as fit
    from symmetries.analysis import generators as generators
    from symmetries.analysis import orbit as orbit
    from symmetries.analysis import prescribe as prescribe
    from symmetries.analysis import watch as watch
    from symmetries.analysis import wrap as wrap
    from symmetries.auditing import audit_model as audit_model
    from symmetries.auditing import distribution_invariance as distribution_invariance
    from symmetries.auditing import drift_curve as drift_curve
    from symmetries.auditing import layer_equivariance as layer_equivariance
    from symmetries.auditing import logit_invariance as logit_invariance
    from symmetries.auditing import saliency_similarity as saliency_similarity
    from symmetries.data import ImageSet as ImageSet
    from symmetries.data import load as load
    from symmetries.distributions import ConditionalFlow as ConditionalFlow
    from symmetries.distributions import UniformBox as UniformBox
    from symmetries.estimators import InvariantClassifier as InvariantClassifier
    from symmetries.estimators import InvariantRegressor as InvariantRegressor
    from symmetries.estimators import RelaxedClassifier as RelaxedClassifier
    from symmetries.estimators import SymmetryEstimator as SymmetryEstimator
    from symmetries.groups import SE2 as SE2
    from symmetries.groups import Affine2 as Affine2
    from symmetries.groups import Colour as Colour
    from symmetries.groups import Cyclic as Cyclic
    from symmetries.groups import CyclicShift as CyclicShift
    from symmetries.groups import Dihedral as Dihedral
    from symmetries.groups import Flip as Flip
    from symmetries.groups import Group as Group
    from symmetries.groups import Product as Product
    from symmetries.groups import Signal as Signal
    from symmetries.groups import as_group as as_group
    from symmetries.learners import VAE as VAE
    from symmetries.learners import InvariantVAE as InvariantVAE
    from symmetries.learners import InvVAE as InvVAE
    from symmetries.learners import OrbitPosterior as OrbitPosterior
    from symmetries.learners import SymmetryModel as SymmetryModel
    from symmetries.nn import OrbitAverage as OrbitAverage
    from symmetries.nn import tie as tie
    from symmetries.testing import assert_action as assert_action
    from symmetries.testing import assert_equivariant as assert_equivariant
    from symmetries.testing import assert_group as assert_group
    from symmetries.testing import assert_invariant as assert_invariant
    from symmetries.testing import equivariance_error as equivariance_error
    from symmetries.testing import invariance_error as invariance_error

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
