"""Lie algebras of functions: polarisation matrices, their null spaces, names and certificates."""

from symmetries._utils.lazy import public_names
from symmetries.lie.algebra import Algebra as Algebra
from symmetries.lie.algebra import algebra as algebra
from symmetries.lie.bases import field_text as field_text
from symmetries.lie.bases import latex_matrix as latex_matrix
from symmetries.lie.bases import simple_basis as simple_basis
from symmetries.lie.certificates import Certificates as Certificates
from symmetries.lie.certificates import certify_fit as certify_fit
from symmetries.lie.certificates import certify_function as certify_function
from symmetries.lie.densities import fit_log_density as fit_log_density
from symmetries.lie.fields import FieldFamily as FieldFamily
from symmetries.lie.fields import custom_fields as custom_fields
from symmetries.lie.fields import field_family as field_family
from symmetries.lie.fields import monomials as monomials
from symmetries.lie.fields import polynomial_fields as polynomial_fields
from symmetries.lie.fitting import FitQuality as FitQuality
from symmetries.lie.fitting import choose_degree as choose_degree
from symmetries.lie.functions import Polynomial as Polynomial
from symmetries.lie.functions import fit_polynomial as fit_polynomial
from symmetries.lie.groups import learned_group as learned_group
from symmetries.lie.intervals import Interval as Interval
from symmetries.lie.names import AlgebraName as AlgebraName
from symmetries.lie.names import name_algebra as name_algebra
from symmetries.lie.noether import ConservedQuantity as ConservedQuantity
from symmetries.lie.noether import conserved_quantities as conserved_quantities
from symmetries.lie.polarisation import Problem as Problem
from symmetries.lie.polarisation import Spectrum as Spectrum
from symmetries.lie.search import ExactSymmetries as ExactSymmetries
from symmetries.lie.search import Search as Search
from symmetries.lie.search import exact_symmetries as exact_symmetries
from symmetries.lie.search import search as search
from symmetries.lie.units import split_halves as split_halves
from symmetries.lie.which_subgroup import Subgroup as Subgroup
from symmetries.lie.which_subgroup import SubgroupAnswer as SubgroupAnswer
from symmetries.lie.which_subgroup import find_subgroup as find_subgroup

__all__ = sorted(public_names(__file__))
