"""Layers of neural networks."""

from typing import TYPE_CHECKING

from symmetries._utils.lazy import lazy_names

if TYPE_CHECKING:
    from symmetries.nn.autoencoder import ConvDecoder as ConvDecoder
    from symmetries.nn.autoencoder import ConvEncoder as ConvEncoder
    from symmetries.nn.conversion import bake as bake
    from symmetries.nn.conversion import export as export
    from symmetries.nn.conversion import export_onnx as export_onnx
    from symmetries.nn.conversion import relax_convolutions as relax_convolutions
    from symmetries.nn.diagonal_gaussian import GaussianPrior as GaussianPrior
    from symmetries.nn.diagonal_gaussian import gaussian_log_prob as gaussian_log_prob
    from symmetries.nn.diagonal_gaussian import importance_bound as importance_bound
    from symmetries.nn.feature_maps import InvariantFeatures as InvariantFeatures
    from symmetries.nn.features import ImageFeatures as ImageFeatures
    from symmetries.nn.fourier import KernelFunction as KernelFunction
    from symmetries.nn.gconv import GroupConv2d as GroupConv2d
    from symmetries.nn.gconv import LiftingConv2d as LiftingConv2d
    from symmetries.nn.gconv import RelaxedGroupConv2d as RelaxedGroupConv2d
    from symmetries.nn.gpool import FieldBatchNorm2d as FieldBatchNorm2d
    from symmetries.nn.gpool import FieldNorm2d as FieldNorm2d
    from symmetries.nn.gpool import GroupPool as GroupPool
    from symmetries.nn.gpool import act_on_fields as act_on_fields
    from symmetries.nn.gpool import split_fields as split_fields
    from symmetries.nn.invariant_linear import InvariantLinear as InvariantLinear
    from symmetries.nn.invariant_model import InvariantModel as InvariantModel
    from symmetries.nn.invariant_model import shallow_model as shallow_model
    from symmetries.nn.natural_linear import NaturalLinear as NaturalLinear
    from symmetries.nn.orbit_average import OrbitAverage as OrbitAverage
    from symmetries.nn.perceptron import MLP as MLP
    from symmetries.nn.relaxation import equivariance_errors as equivariance_errors
    from symmetries.nn.relaxation import learned_relaxations as learned_relaxations
    from symmetries.nn.relaxation import relaxation_penalty as relaxation_penalty
    from symmetries.nn.relaxation import relaxed_layers as relaxed_layers
    from symmetries.nn.relaxed_networks import RelaxedCNN as RelaxedCNN
    from symmetries.nn.relaxed_networks import RelaxedResNet as RelaxedResNet
    from symmetries.nn.relaxed_networks import ResidualBlock as ResidualBlock
    from symmetries.nn.relaxed_networks import Symmetry as Symmetry
    from symmetries.nn.tied import TiedConv2d as TiedConv2d
    from symmetries.nn.tied import TiedLinear as TiedLinear
    from symmetries.nn.tied import TiedPool as TiedPool
    from symmetries.nn.tied import group_permutations as group_permutations
    from symmetries.nn.tied import pixel_permutations as pixel_permutations
    from symmetries.nn.tied import tie as tie
    from symmetries.nn.variational import VariationalLinear as VariationalLinear
    from symmetries.ops.kernel_network import fourier_features as fourier_features

__all__, __getattr__, __dir__ = lazy_names(__name__, __file__)
