"""All result types: plain data with a versioned schema, JSON in and JSON out.

Reports, tables and tests read these and nothing else. The first field of a file says what it is,
``"schema": "symmetries.<kind>/<version>"``; the version grows when an old reader would misread it.
Numbers are in the units that a person reads: degrees, pixels, factors.
"""

from symmetries.results.audits import (
    AuditResult,
    ClassRow,
    DriftPoint,
    Estimate,
    LayerError,
    LieDerivative,
    ParameterRange,
    Preprocessing,
    SaliencyPoint,
)
from symmetries.results.augments import AugmentResult
from symmetries.results.base import Record, Result
from symmetries.results.fits import (
    EvidenceCurve,
    FitResult,
    Invariance,
    LayerRelaxation,
    WidthCurve,
)
from symmetries.results.generators import (
    FieldDefect,
    FieldGenerator,
    FitSummary,
    GeneratorResult,
    VectorSummary,
)
from symmetries.results.orbits import OrbitCurve, OrbitResult
from symmetries.results.prescriptions import (
    Conflict,
    ModelCurve,
    PrescribedMove,
    PrescribeResult,
    TriedPolicy,
)
from symmetries.results.provenance import DataSummary, RunInfo
from symmetries.results.showing import ShownResult
from symmetries.results.sweeps import SweepResult, Trial
from symmetries.results.symmetries import (
    ClassSymmetries,
    Histogram,
    PlantedWidth,
    Quality,
    SelfTest,
    SymmetryResult,
    SymmetrySummary,
    Transformation,
)
from symmetries.results.watches import ChangedParameter, ExpectedLoss, WatchResult
from symmetries.results.wraps import (
    Candidate,
    ClassEffect,
    Compared,
    ExportedFile,
    Latency,
    WrapResult,
)

__all__ = [
    "AuditResult",
    "AugmentResult",
    "Candidate",
    "ChangedParameter",
    "ClassEffect",
    "ClassRow",
    "ClassSymmetries",
    "Compared",
    "Conflict",
    "DataSummary",
    "DriftPoint",
    "Estimate",
    "EvidenceCurve",
    "ExpectedLoss",
    "ExportedFile",
    "FieldDefect",
    "FieldGenerator",
    "FitResult",
    "FitSummary",
    "GeneratorResult",
    "Histogram",
    "Invariance",
    "Latency",
    "LayerError",
    "LayerRelaxation",
    "LieDerivative",
    "ModelCurve",
    "OrbitCurve",
    "OrbitResult",
    "ParameterRange",
    "PlantedWidth",
    "Preprocessing",
    "PrescribeResult",
    "PrescribedMove",
    "Quality",
    "Record",
    "Result",
    "RunInfo",
    "SaliencyPoint",
    "SelfTest",
    "ShownResult",
    "SweepResult",
    "SymmetryResult",
    "SymmetrySummary",
    "Transformation",
    "Trial",
    "TriedPolicy",
    "VectorSummary",
    "WatchResult",
    "WidthCurve",
    "WrapResult",
]
