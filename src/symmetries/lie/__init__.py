"""Lie algebras of functions: polarisation matrices, their null spaces, names and certificates."""

from symmetries.lie.algebra import Algebra, algebra
from symmetries.lie.bases import field_text, latex_matrix, simple_basis
from symmetries.lie.fields import FieldFamily, custom_fields, field_family, polynomial_fields
from symmetries.lie.names import AlgebraName, name_algebra
from symmetries.lie.polarisation import Problem, Spectrum
from symmetries.lie.search import ExactSymmetries, Search, exact_symmetries, search

__all__ = [
    "Algebra",
    "AlgebraName",
    "ExactSymmetries",
    "FieldFamily",
    "Problem",
    "Search",
    "Spectrum",
    "algebra",
    "custom_fields",
    "exact_symmetries",
    "field_family",
    "field_text",
    "latex_matrix",
    "name_algebra",
    "polynomial_fields",
    "search",
    "simple_basis",
]
