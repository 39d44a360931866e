import io
import pickle
import tarfile

import numpy as np
import pytest
import torch

from symmetries.data import cifar

COUNT = 4
NAMES10 = ["airplane", "automobile", "bird", "cat", "deer"]


def batch(seed, count=COUNT):
    rng = np.random.default_rng(seed)
    return rng.integers(0, 256, (count, 3072), dtype=np.uint8), rng.integers(0, 5, count)


def binary10(folder):
    folder.mkdir(parents=True)
    for i, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        images, labels = batch(i)
        rows = np.concatenate([labels[:, None].astype(np.uint8), images], 1)
        (folder / f"{name}.bin").write_bytes(rows.tobytes())
    (folder / "batches.meta.txt").write_text("\n".join(NAMES10) + "\n\n")


def python10(folder, dump):
    folder.mkdir(parents=True)
    for i, name in enumerate([*(f"data_batch_{k}" for k in range(1, 6)), "test_batch"]):
        images, labels = batch(i)
        (folder / name).write_bytes(dump(images, labels.tolist()))
    (folder / "batches.meta").write_bytes(pickle.dumps({"label_names": NAMES10}, 2))


def python3_pickle(images, labels):
    return pickle.dumps({"data": images, "labels": labels, "filenames": ["a.png"]}, 2)


def python3_new_pickle(images, labels):
    return pickle.dumps({b"data": images, b"labels": labels}, 4)


def python2_pickle(images, labels):
    """What Python 2 and its numpy wrote: byte strings, numpy.core, protocol 2."""

    def text(value):
        return b"U" + bytes([len(value)]) + value

    array = b"cnumpy.core.multiarray\n_reconstruct\nq\x01cnumpy\nndarray\nq\x02K\x00\x85"
    array += text(b"b") + b"\x87R(K\x01" + b"M" + len(images).to_bytes(2, "little")
    array += b"M" + (3072).to_bytes(2, "little") + b"\x86"
    array += b"cnumpy\ndtype\n" + text(b"u1") + b"K\x00K\x01\x87R"
    array += b"(K\x03" + text(b"|") + b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89"
    array += b"T" + images.nbytes.to_bytes(4, "little") + images.tobytes() + b"tb"
    numbers = b"](" + b"".join(b"K" + bytes([n]) for n in labels) + b"e"
    return b"\x80\x02}(" + text(b"data") + array + text(b"labels") + numbers + b"u."


def check10(data, split):
    parts = [batch(i) for i in (range(5) if split == "train" else [5])]
    images = np.concatenate([part[0] for part in parts]).reshape(-1, 3, 32, 32)
    assert torch.equal(data.images, torch.from_numpy(images).float() / 255)
    assert data.labels.tolist() == [n for part in parts for n in part[1]]
    assert data.class_names == tuple(NAMES10)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("place", [".", "cifar10"])
def test_binary_layout(tmp_path, split, place):
    binary10(tmp_path / place / "cifar-10-batches-bin")
    check10(cifar("cifar10", split, tmp_path), split)


@pytest.mark.parametrize("split", ["train", "test"])
@pytest.mark.parametrize("dump", [python2_pickle, python3_pickle, python3_new_pickle])
def test_python_layout(tmp_path, split, dump):
    python10(tmp_path / "cifar-10-batches-py", dump)
    check10(cifar("cifar10", split, tmp_path), split)


def test_archive_is_read_as_it_is(tmp_path):
    binary10(tmp_path / "there" / "cifar-10-batches-bin")
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "there" / "cifar-10-batches-bin", "cifar-10-batches-bin")
    check10(cifar("cifar10", "train", tmp_path), "train")
    data = (tmp_path / "cifar-10-binary.tar.gz").read_bytes()
    (tmp_path / "cifar-10-binary.tar.gz").write_bytes(data[: len(data) // 2])
    with pytest.raises(ValueError, match="a readable archive"):
        cifar("cifar10", "train", tmp_path)


def test_an_archive_writes_nothing(tmp_path):
    """Members that point outside of the folder, links among them, stay where they are."""
    home = tmp_path / "data"
    binary10(tmp_path / "there" / "cifar-10-batches-bin")
    home.mkdir()
    with tarfile.open(home / "cifar-10-binary.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "there" / "cifar-10-batches-bin", "cifar-10-batches-bin")
        for name in ("../evil", str(tmp_path / "evil"), "cifar-10-batches-bin/../../evil"):
            archive.addfile(tarfile.TarInfo(name))
        link = tarfile.TarInfo("cifar-10-batches-bin/link")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc"
        archive.addfile(link)
    before = sorted(tmp_path.rglob("*"))
    check10(cifar("cifar10", "train", home), "train")
    assert sorted(tmp_path.rglob("*")) == before


def test_cifar100_takes_the_fine_label(tmp_path):
    folder = tmp_path / "cifar-100-binary"
    folder.mkdir()
    images, fine = batch(0)
    coarse = np.full((COUNT, 1), 19, np.uint8)
    rows = np.concatenate([coarse, fine[:, None].astype(np.uint8), images], 1)
    (folder / "train.bin").write_bytes(rows.tobytes())
    (folder / "fine_label_names.txt").write_text("\n".join("abcde"))
    data = cifar("cifar100", "train", tmp_path)
    assert data.labels.tolist() == fine.tolist()
    python = tmp_path / "other" / "cifar-100-python"
    python.mkdir(parents=True)
    entries = {"data": images, "fine_labels": fine.tolist(), "coarse_labels": [19] * COUNT}
    (python / "train").write_bytes(pickle.dumps(entries, 2))
    (python / "meta").write_bytes(pickle.dumps({"fine_label_names": list("abcde")}, 2))
    again = cifar("cifar100", "train", tmp_path / "other")
    assert torch.equal(again.images, data.images)
    assert torch.equal(again.labels, data.labels)


def test_damaged_binary_files_are_named(tmp_path):
    binary10(tmp_path / "cifar-10-batches-bin")
    path = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ValueError, match="whole records of 3073 bytes, got 12291 bytes"):
        cifar("cifar10", "test", tmp_path)
    path.write_bytes(b"")
    with pytest.raises(ValueError, match="got 0 bytes"):
        cifar("cifar10", "test", tmp_path)
    path.unlink()
    with pytest.raises(ValueError, match=r"no test_batch\.bin"):
        cifar("cifar10", "test", tmp_path)


def test_label_beyond_the_names_is_refused(tmp_path):
    binary10(tmp_path / "cifar-10-batches-bin")
    path = tmp_path / "cifar-10-batches-bin" / "test_batch.bin"
    path.write_bytes(b"\xff" + path.read_bytes()[1:])
    with pytest.raises(ValueError, match="labels: expected"):
        cifar("cifar10", "test", tmp_path)


def test_missing_files_say_where_and_how(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"batches-bin.*symmetries data fetch cifar10"):
        cifar("cifar10", "train", tmp_path)


def test_entries_of_the_wrong_kind_are_named(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    python10(folder, python3_pickle)
    images, labels = batch(5)
    for entries, words in [
        ({"labels": labels.tolist()}, "arrays 'data' and 'labels'"),
        ({"data": images, "labels": labels.tolist()[1:]}, "N labels"),
        ({"data": images[:, 1:], "labels": labels.tolist()}, r"\(N, 3072\) bytes"),
        ({"data": images, "labels": ["cat"] * COUNT}, "labels: expected integers"),
        ([1, 2], "a pickle of plain data"),
    ]:
        (folder / "test_batch").write_bytes(pickle.dumps(entries, 2))
        with pytest.raises(ValueError, match=words):
            cifar("cifar10", "test", tmp_path)


def test_tar_member_of_another_kind_is_not_read(tmp_path):
    """A link in the archive named like a data file is not followed."""
    with tarfile.open(tmp_path / "cifar-10-binary.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("cifar-10-batches-bin/test_batch.bin")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/hostname"
        archive.addfile(link)
        names = tarfile.TarInfo("cifar-10-batches-bin/batches.meta.txt")
        names.size = 2
        archive.addfile(names, io.BytesIO(b"a\n"))
    with pytest.raises(ValueError, match=r"no test_batch\.bin"):
        cifar("cifar10", "test", tmp_path)
