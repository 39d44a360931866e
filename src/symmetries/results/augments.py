"""Record of ``symmetries augment``: what the new images were made of, and how."""

import zipfile
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field

from symmetries.results.base import Result
from symmetries.results.provenance import DataSummary, RunInfo


class AugmentResult(Result):
    """Record of ``symmetries augment``, stored inside of the ``.npz`` file that it describes.

    One file is replaced in one step, so that images and record are always of one run.

    Args:
        file: that was written.
        images: number of new images.
        shape: of their array.
        labels: whether they have labels.
        copies: new versions of each image.
        preset: how often a two-stage model inferred prototypes again.
        precision: that the model computed in.
        model: as it was named.
        model_sha256: digest of its files and weights.
        unseen: whether each image was given to the fit of the model that had not seen it.
        data: the images that were given.
        run: command, seed, device, threads, versions and commit.
    """

    member: ClassVar[str] = "run.json"  # of the .npz file

    schema_name: Literal["symmetries.augment/1"] = Field(
        default="symmetries.augment/1", alias="schema"
    )
    file: str
    images: int = Field(ge=0)
    shape: tuple[int, ...]
    labels: bool
    copies: int = Field(ge=1)
    preset: str
    precision: str
    model: str
    model_sha256: str
    unseen: bool
    data: DataSummary
    run: RunInfo

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read the record of an ``.npz`` file, or what ``--json`` printed."""
        if not zipfile.is_zipfile(path):
            return super().load(path)
        try:
            with zipfile.ZipFile(path) as archive:
                if archive.getinfo(cls.member).file_size > 2**24:
                    raise ValueError("one of more than 16 MB")
                text = archive.read(cls.member)
        except (
            KeyError,
            ValueError,
            NotImplementedError,
            RuntimeError,
            zipfile.BadZipFile,
        ) as error:
            got = "none" if isinstance(error, KeyError) else error
            remedy = "write it with symmetries augment"
            raise ValueError(
                f"{path}: expected a member {cls.member}, got {got}; {remedy}"
            ) from error
        return cls._read(text, path)
