"""Lie algebras of functions: polarisation matrices, their null spaces, names and certificates."""

from symmetries.lie.algebra import Algebra, algebra
from symmetries.lie.bases import field_text, latex_matrix, simple_basis
from symmetries.lie.certificates import Certificates, certify_fit, certify_function
from symmetries.lie.densities import fit_log_density
from symmetries.lie.fields import (
    FieldFamily,
    custom_fields,
    field_family,
    monomials,
    polynomial_fields,
)
from symmetries.lie.fitting import FitQuality, choose_degree
from symmetries.lie.functions import Polynomial, fit_polynomial
from symmetries.lie.groups import learned_group
from symmetries.lie.intervals import Interval
from symmetries.lie.names import AlgebraName, name_algebra
from symmetries.lie.noether import ConservedQuantity, conserved_quantities
from symmetries.lie.polarisation import Problem, Spectrum
from symmetries.lie.search import ExactSymmetries, Search, exact_symmetries, search
from symmetries.lie.units import split_halves
from symmetries.lie.which_subgroup import Subgroup, SubgroupAnswer, find_subgroup

__all__ = [
    "Algebra",
    "AlgebraName",
    "Certificates",
    "ConservedQuantity",
    "ExactSymmetries",
    "FieldFamily",
    "FitQuality",
    "Interval",
    "Polynomial",
    "Problem",
    "Search",
    "Spectrum",
    "Subgroup",
    "SubgroupAnswer",
    "algebra",
    "certify_fit",
    "certify_function",
    "choose_degree",
    "conserved_quantities",
    "custom_fields",
    "exact_symmetries",
    "field_family",
    "field_text",
    "find_subgroup",
    "fit_log_density",
    "fit_polynomial",
    "latex_matrix",
    "learned_group",
    "monomials",
    "name_algebra",
    "polynomial_fields",
    "search",
    "simple_basis",
    "split_halves",
]
