"""Loaders that return image tensors, and data sets derived from others by transformations."""

from symmetries.data.arrays import array_file, from_array
from symmetries.data.background import background
from symmetries.data.base import ImageSet, data_folder, standardise
from symmetries.data.cifar_files import cifar
from symmetries.data.convert import as_image_set, as_images
from symmetries.data.datasets import digits, from_dataset
from symmetries.data.derived import coloured, rotated, scaled, translated, upside_down_sixes
from symmetries.data.drifting import drift, transforming
from symmetries.data.idx import fashion_mnist, mnist, read_idx
from symmetries.data.pictures import picture_folder
from symmetries.data.registry import NAMES, describe, load, names
from symmetries.data.remote import download
from symmetries.data.rendering import SpriteFactors, render
from symmetries.data.sprite_sets import dsprites, grid_factors, resampled_indices, sprites
from symmetries.data.streams import ArrayShards, PictureStream, mapped, stream

__all__ = [
    "NAMES",
    "ArrayShards",
    "ImageSet",
    "PictureStream",
    "SpriteFactors",
    "array_file",
    "as_image_set",
    "as_images",
    "background",
    "cifar",
    "coloured",
    "data_folder",
    "describe",
    "digits",
    "download",
    "drift",
    "dsprites",
    "fashion_mnist",
    "from_array",
    "from_dataset",
    "grid_factors",
    "load",
    "mapped",
    "mnist",
    "names",
    "picture_folder",
    "read_idx",
    "render",
    "resampled_indices",
    "rotated",
    "scaled",
    "sprites",
    "standardise",
    "stream",
    "transforming",
    "translated",
    "upside_down_sixes",
]
