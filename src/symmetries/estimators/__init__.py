"""The library as scikit-learn estimators: arrays in, arrays out.

Images come as arrays (N, H, W) or (N, C, H, W), or flattened as (N, features): those are read with
``image_shape``, else as square grey images if the number of features is a square, else as one row.
Square images in colour need their shape: without it they are refused.
"""

from symmetries.estimators.images import image_size
from symmetries.estimators.invariant import InvariantClassifier, InvariantRegressor
from symmetries.estimators.relaxed import RelaxedClassifier
from symmetries.estimators.symmetry import SymmetryEstimator

__all__ = [
    "InvariantClassifier",
    "InvariantRegressor",
    "RelaxedClassifier",
    "SymmetryEstimator",
    "image_size",
]
