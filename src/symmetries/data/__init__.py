"""Loaders that return image tensors, and data sets derived from others by transformations."""

from symmetries._utils.lazy import public_names
from symmetries.data.arrays import array_file as array_file
from symmetries.data.arrays import from_array as from_array
from symmetries.data.background import background as background
from symmetries.data.base import ImageSet as ImageSet
from symmetries.data.base import data_folder as data_folder
from symmetries.data.base import standardise as standardise
from symmetries.data.cifar_files import cifar as cifar
from symmetries.data.convert import as_image_set as as_image_set
from symmetries.data.convert import as_images as as_images
from symmetries.data.datasets import digits as digits
from symmetries.data.datasets import from_dataset as from_dataset
from symmetries.data.derived import coloured as coloured
from symmetries.data.derived import rotated as rotated
from symmetries.data.derived import scaled as scaled
from symmetries.data.derived import translated as translated
from symmetries.data.derived import upside_down_sixes as upside_down_sixes
from symmetries.data.drifting import drift as drift
from symmetries.data.drifting import transforming as transforming
from symmetries.data.idx import fashion_mnist as fashion_mnist
from symmetries.data.idx import mnist as mnist
from symmetries.data.idx import read_idx as read_idx
from symmetries.data.pictures import picture_folder as picture_folder
from symmetries.data.registry import NAMES as NAMES
from symmetries.data.registry import describe as describe
from symmetries.data.registry import load as load
from symmetries.data.registry import names as names
from symmetries.data.remote import download as download
from symmetries.data.rendering import SpriteFactors as SpriteFactors
from symmetries.data.rendering import render as render
from symmetries.data.sprite_sets import dsprites as dsprites
from symmetries.data.sprite_sets import grid_factors as grid_factors
from symmetries.data.sprite_sets import resampled_indices as resampled_indices
from symmetries.data.sprite_sets import sprites as sprites
from symmetries.data.streams import ArrayShards as ArrayShards
from symmetries.data.streams import PictureStream as PictureStream
from symmetries.data.streams import mapped as mapped
from symmetries.data.streams import stream as stream

__all__ = sorted(public_names(__file__))
