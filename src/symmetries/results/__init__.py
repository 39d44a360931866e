"""All result types: plain data with a versioned schema, JSON in and JSON out.

Reports, tables and tests read these and nothing else. The first field of a file says what it is,
``"schema": "symmetries.<kind>/<version>"``; the version grows when an old reader would misread it.
Numbers are in the units that a person reads: degrees, pixels, factors.
"""

from symmetries.results.audits import AuditResult as AuditResult
from symmetries.results.audits import ClassRow as ClassRow
from symmetries.results.audits import DriftPoint as DriftPoint
from symmetries.results.audits import Estimate as Estimate
from symmetries.results.audits import LayerError as LayerError
from symmetries.results.audits import LieDerivative as LieDerivative
from symmetries.results.audits import ParameterRange as ParameterRange
from symmetries.results.audits import Preprocessing as Preprocessing
from symmetries.results.audits import SaliencyPoint as SaliencyPoint
from symmetries.results.augments import AugmentResult as AugmentResult
from symmetries.results.base import Record as Record
from symmetries.results.base import Result as Result
from symmetries.results.fits import EvidenceCurve as EvidenceCurve
from symmetries.results.fits import FitResult as FitResult
from symmetries.results.fits import Invariance as Invariance
from symmetries.results.fits import LayerRelaxation as LayerRelaxation
from symmetries.results.fits import WidthCurve as WidthCurve
from symmetries.results.generators import FieldDefect as FieldDefect
from symmetries.results.generators import FieldGenerator as FieldGenerator
from symmetries.results.generators import FitSummary as FitSummary
from symmetries.results.generators import GeneratorResult as GeneratorResult
from symmetries.results.generators import VectorSummary as VectorSummary
from symmetries.results.orbits import OrbitCurve as OrbitCurve
from symmetries.results.orbits import OrbitResult as OrbitResult
from symmetries.results.prescriptions import Conflict as Conflict
from symmetries.results.prescriptions import ModelCurve as ModelCurve
from symmetries.results.prescriptions import PrescribedMove as PrescribedMove
from symmetries.results.prescriptions import PrescribeResult as PrescribeResult
from symmetries.results.prescriptions import TriedPolicy as TriedPolicy
from symmetries.results.provenance import DataSummary as DataSummary
from symmetries.results.provenance import RunInfo as RunInfo
from symmetries.results.showing import ShownResult as ShownResult
from symmetries.results.sweeps import SweepResult as SweepResult
from symmetries.results.sweeps import Trial as Trial
from symmetries.results.symmetries import ClassSymmetries as ClassSymmetries
from symmetries.results.symmetries import Histogram as Histogram
from symmetries.results.symmetries import PlantedWidth as PlantedWidth
from symmetries.results.symmetries import PoseSubgroup as PoseSubgroup
from symmetries.results.symmetries import Quality as Quality
from symmetries.results.symmetries import SelfTest as SelfTest
from symmetries.results.symmetries import SymmetryResult as SymmetryResult
from symmetries.results.symmetries import SymmetrySummary as SymmetrySummary
from symmetries.results.symmetries import Transformation as Transformation
from symmetries.results.watches import ChangedParameter as ChangedParameter
from symmetries.results.watches import ExpectedLoss as ExpectedLoss
from symmetries.results.watches import WatchResult as WatchResult
from symmetries.results.wraps import Candidate as Candidate
from symmetries.results.wraps import ClassEffect as ClassEffect
from symmetries.results.wraps import Compared as Compared
from symmetries.results.wraps import ExportedFile as ExportedFile
from symmetries.results.wraps import Latency as Latency
from symmetries.results.wraps import WrapResult as WrapResult

__all__ = sorted(name for name in dir() if name[0].isupper())
