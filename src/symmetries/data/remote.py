"""Download of public data files, verified by SHA-256."""

import fcntl
import hashlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from symmetries._validation.checks import check_choice, invalid
from symmetries.data.base import FOLDER_VARIABLE, data_folder

_MNIST_HOSTS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
)
_FASHION_HOSTS = (
    "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)
_CIFAR_HOSTS = ("https://www.cs.toronto.edu/~kriz/",)
_DSPRITES_PAGE = "https://github.com/google-deepmind/dsprites-dataset"


@dataclass(frozen=True)
class RemoteFile:
    """A public file: its path below the data folder, its hosts, its SHA-256 and its size."""

    path: str
    hosts: tuple[str, ...]
    sha256: str
    size: int | None = None  # bytes, if known

    @property
    def urls(self) -> tuple[str, ...]:
        """Addresses of the file, tried in this order."""
        return tuple(host + Path(self.path).name for host in self.hosts)


def _idx_files(
    name: str, hosts: tuple[str, ...], sizes: tuple[int, ...], hashes: tuple[str, ...]
) -> list[RemoteFile]:
    parts = ("train-images-idx3", "train-labels-idx1", "t10k-images-idx3", "t10k-labels-idx1")
    return [
        RemoteFile(f"{name}/{part}-ubyte.gz", hosts, sha256, size)
        for part, size, sha256 in zip(parts, sizes, hashes, strict=True)
    ]


REMOTE: dict[str, list[RemoteFile]] = {
    "mnist": _idx_files(
        "mnist",
        _MNIST_HOSTS,
        (9_912_422, 28_881, 1_648_877, 4_542),
        (
            "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
            "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
            "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
            "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
        ),
    ),
    "fashion-mnist": _idx_files(
        "fashion-mnist",
        _FASHION_HOSTS,
        (26_421_880, 29_515, 4_422_102, 5_148),
        (
            "3aede38d61863908ad78613f6a32ed271626dd12800ba2636569512369268a84",
            "a04f17134ac03560a47e3764e11b92fc97de4d1bfaf8ba1a3aa29af54cc90845",
            "346e55b948d973a97e58d2351dde16a484bd415d4595297633bb08f03db6a073",
            "67da17c76eaffca5446c3361aaab5c3cd6d1c2608764d35dfb1850b086bf8dd5",
        ),
    ),
    "cifar10": [
        RemoteFile(
            "cifar-10-binary.tar.gz",
            _CIFAR_HOSTS,
            "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd",
            170_052_171,
        )
    ],
    "cifar100": [
        RemoteFile(
            "cifar-100-binary.tar.gz",
            _CIFAR_HOSTS,
            "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
            168_513_733,
        )
    ],
}


def advice(name: str) -> str:
    """Return what to do if the files of a set are missing."""
    place = f"put them in the folder (argument, or ${FOLDER_VARIABLE})"
    if name in REMOTE:
        return f"{place}, or fetch them: symmetries data fetch {name}"
    if name == "dsprites":
        return (
            f"{place}; they are at {_DSPRITES_PAGE}; 'sprites' renders similar ones without files"
        )
    return place


def check_published(path: Path) -> None:
    """Raise an error if a file has the name and size of a public file but another SHA-256.

    A file of another size is taken to be the user's own (a part of the set, or recompressed) and
    passes; its format is checked when it is read.

    Args:
        path: the file that is about to be read.
    """
    for remote in (remote for files in REMOTE.values() for remote in files):
        if Path(remote.path).name == path.name and path.stat().st_size == remote.size:
            digest = _sha256(path)
            if digest != remote.sha256:
                expected = f"SHA-256 {remote.sha256[:12]}..., as published"
                remedy = "it was changed or damaged: remove it and fetch it again"
                raise invalid(str(path), expected, f"{digest[:12]}...", remedy)


def fetch(remote: RemoteFile, folder: str | Path, timeout: float = 30.0) -> Path:
    """Download a public file below ``folder``, unless it is there and complete.

    The file appears only once it is complete and its SHA-256 matches; what a killed download left
    is removed by the next one.

    Args:
        remote: the file.
        folder: the data folder.
        timeout: seconds to wait for a host that does not answer.
    """
    import pooch
    import requests

    target = Path(folder) / remote.path
    _remove_left(target)
    if target.is_file() and _sha256(target) == remote.sha256:
        return target
    problems = []
    for url in remote.urls:
        try:
            with _partial_folder(target) as partial:
                found = pooch.retrieve(
                    url,
                    known_hash=f"sha256:{remote.sha256}",
                    fname=target.name,
                    path=partial,
                    downloader=pooch.HTTPDownloader(timeout=timeout),
                )
                os.replace(found, target)
        except requests.exceptions.ConnectionError as error:
            problems.append(f"no connection to {url} ({type(error).__name__})")
        except requests.exceptions.RequestException as error:
            problems.append(f"{url} failed ({error})")
        except ValueError:
            problems.append(f"{url} sent other bytes (truncated, or not the published file)")
        else:
            return target
    got = "; ".join(problems)
    remedy = f"check the network and try again, or put the file at {target} by hand"
    raise OSError(str(invalid(remote.path, f"SHA-256 {remote.sha256[:12]}...", got, remedy)))


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _remove_left(target: Path) -> None:
    """Remove folders of partial downloads that nobody has locked: killed processes left them."""
    for left in target.parent.glob(f".{target.name}-*.part"):
        with _locked_folder(left) as ours:
            if ours:
                shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _partial_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside a file that is downloaded, locked by the kernel while it is in use."""
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(".part", f".{target.name}-", target.parent))
    with _locked_folder(partial):
        try:
            yield partial
        finally:
            shutil.rmtree(partial, ignore_errors=True)


@contextmanager
def _locked_folder(folder: Path) -> Iterator[bool]:
    """Lock a folder, if it is there and no other process has; whether this one holds the lock."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:  # its owner has just removed it
        yield False
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        yield True
    finally:
        os.close(descriptor)


def download(name: str, folder: str | Path | None = None) -> list[Path]:
    """Download the files of a public set into a folder, verified by SHA-256.

    Args:
        name: a set whose host and hashes are known: "mnist", "fashion-mnist", "cifar10",
            "cifar100".
        folder: destination; the default is $SYMMETRIES_DATA, else the user's cache.

    Returns:
        Paths of the files.
    """
    check_choice(name, REMOTE, "name")
    if folder is not None:
        Path(folder).expanduser().mkdir(parents=True, exist_ok=True)
    root = data_folder(folder)
    return [fetch(remote, root) for remote in REMOTE[name]]
