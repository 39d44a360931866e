import io
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from symmetries.data import array_file, from_array, from_dataset, load

RNG = np.random.default_rng(0)
BYTES = RNG.integers(0, 256, (5, 6, 7, 3), dtype=np.uint8)  # NHWC
EXPECTED = torch.from_numpy(np.moveaxis(BYTES, 3, 1).copy()).float() / 255


@pytest.mark.parametrize(
    "array",
    [
        BYTES,
        np.moveaxis(BYTES, 3, 1),
        BYTES.astype(np.float32) / 255,
        BYTES.astype(np.float64) / 255,
        torch.from_numpy(BYTES),
        EXPECTED,
    ],
)
def test_layouts_and_types(array):
    data = from_array(array)
    assert data.images.dtype == torch.float32
    assert data.images.is_contiguous()
    torch.testing.assert_close(data.images, EXPECTED, rtol=0, atol=1e-7)


def test_grey_arrays_get_a_channel():
    assert torch.equal(from_array(BYTES[..., 0]).images, EXPECTED[:, :1])
    assert torch.equal(from_array(BYTES[..., :1]).images, EXPECTED[:, :1])


def test_the_source_is_not_shared():
    array = np.zeros((2, 8, 8), np.float32)
    data = from_array(array)
    array[:] = 1
    assert data.images.sum() == 0


def test_ambiguous_shape_asks_for_the_layout():
    array = np.zeros((2, 3, 8, 3), np.uint8)
    with pytest.raises(ValueError, match='layout="NCHW"'):
        from_array(array)
    assert from_array(array, layout="NCHW").images.shape == (2, 3, 8, 3)
    assert from_array(array, layout="NHWC").images.shape == (2, 3, 3, 8)


@pytest.mark.parametrize(
    ("array", "words"),
    [
        (np.zeros((8, 8), np.uint8), "3 or 4 axes"),
        (np.zeros((2, 3, 4, 5, 6), np.uint8), "3 or 4 axes"),
        (np.zeros((2, 7, 8, 9), np.uint8), "1 to 4 channels"),
        (np.zeros((0, 8, 8), np.uint8), "at least one image"),
        (np.zeros((2, 0, 8), np.uint8), "no empty axis"),
        (np.zeros((2, 8, 8), np.int64), "cast to uint8"),
        (np.zeros((2, 8, 8), np.complex64), "uint8 or floating"),
        (np.array([[["a"]]]), "uint8 or floating"),
        (np.full((2, 8, 8), 200.0), "divide by 255"),
        (np.full((2, 8, 8), np.nan), "NaN or infinite"),
        (np.full((2, 8, 8), -np.inf), "NaN or infinite"),
        (np.full((2, 8, 8), 1e300), "expected"),
    ],
)
def test_bad_arrays_are_named(array, words):
    with pytest.raises(ValueError, match="images: expected") as caught:
        from_array(array)
    assert words in str(caught.value)


def test_bad_labels_and_layout_are_named():
    with pytest.raises(ValueError, match=r"labels: expected shape \(5,\)"):
        from_array(BYTES, np.zeros(4, int))
    with pytest.raises(ValueError, match="labels: expected integers"):
        from_array(BYTES, np.zeros(5))
    with pytest.raises(ValueError, match="layout: expected one of"):
        from_array(BYTES, layout="CHWN")
    with pytest.raises(ValueError, match="3 axes for NHW"):
        from_array(BYTES, layout="NHW")


def test_npy(tmp_path):
    np.save(tmp_path / "some.npy", BYTES)
    data = load(tmp_path / "some.npy")
    assert torch.equal(data.images, EXPECTED)
    assert (data.name, data.labels) == ("some", None)
    np.save(tmp_path / "some.npy", np.asfortranarray(BYTES))
    assert torch.equal(load(tmp_path / "some.npy").images, EXPECTED)
    with pytest.raises(ValueError, match="a file with a test split"):
        array_file(tmp_path / "some.npy", "test")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize(
    "keys", [("images", "labels"), ("x", "y"), ("x_train", "y_train"), ("arr_0", "arr_1")]
)
def test_npz(tmp_path, save, keys):
    path = tmp_path / "some.npz"
    save(path, **{keys[0]: BYTES, keys[1]: np.arange(5)[:, None]})
    data = load(str(path))
    assert torch.equal(data.images, EXPECTED)
    assert data.labels.tolist() == [0, 1, 2, 3, 4]


def test_npz_with_splits(tmp_path):
    path = tmp_path / "some.npz"
    np.savez(path, train_images=BYTES[:3], test_images=BYTES[3:], test_labels=np.array([7, 8]))
    assert torch.equal(array_file(path, "test").images, EXPECTED[3:])
    assert array_file(path, "test").labels.tolist() == [7, 8]
    assert array_file(path, "train").labels is None
    np.savez(path, images=BYTES)
    with pytest.raises(ValueError, match="images of the test split"):
        array_file(path, "test")


def test_objects_are_never_unpickled(tmp_path):
    np.savez(tmp_path / "some.npz", images=BYTES, extra=np.array([{}], dtype=object))
    assert torch.equal(load(tmp_path / "some.npz").images, EXPECTED)
    np.savez(tmp_path / "only.npz", images=np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="objects in images"):
        load(tmp_path / "only.npz")
    np.save(tmp_path / "some.npy", np.array([{}], dtype=object))
    with pytest.raises(ValueError, match="object arrays would run code"):
        load(tmp_path / "some.npy")


def lying_npy():
    stream = io.BytesIO()
    header = {"descr": "|u1", "fortran_order": False, "shape": (2**40, 2**10, 2**10)}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


@pytest.mark.parametrize("kind", ["npy", "npz", "deflated"])
def test_a_lying_header_is_refused_before_allocation(tmp_path, kind):
    path = tmp_path / ("big.npy" if kind == "npy" else "big.npz")
    if kind == "npy":
        path.write_bytes(lying_npy())
    else:
        way = zipfile.ZIP_STORED if kind == "npz" else zipfile.ZIP_DEFLATED
        with zipfile.ZipFile(path, "w", way) as archive:
            archive.writestr("images.npy", lying_npy())
    tracemalloc.start()
    with pytest.raises(ValueError, match=f"claims {2**60} bytes"):
        load(path)
    assert tracemalloc.get_traced_memory()[1] < 2**22
    tracemalloc.stop()


@pytest.mark.parametrize("suffix", [".npy", ".npz"])
def test_every_cut_is_an_error(tmp_path, suffix):
    whole = tmp_path / f"whole{suffix}"
    if suffix == ".npy":
        np.save(whole, BYTES[:1])
    else:
        np.savez_compressed(whole, images=BYTES[:1])
    data = whole.read_bytes()
    path = tmp_path / f"cut{suffix}"
    for end in range(0, len(data), 3):
        path.write_bytes(data[:end])
        with pytest.raises(ValueError, match=r"cut\.np"):
            load(path)


def test_damaged_pixels_in_a_zip_are_noticed(tmp_path):
    path = tmp_path / "some.npz"
    np.savez(path, images=BYTES)
    data = bytearray(path.read_bytes())
    data[data.index(BYTES.tobytes()) + 50] ^= 255
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a readable \.npz file"):
        load(path)


def test_encrypted_zip_is_an_error(tmp_path):
    path = tmp_path / "some.npz"
    np.savez(path, images=BYTES)
    data = bytearray(path.read_bytes())
    for mark, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = data.index(mark) + at
        struct.pack_into("<H", data, place, 1)  # the flag of an encrypted member
    path.write_bytes(data)
    with pytest.raises(ValueError, match=r"a readable \.npz file"):
        load(path)


class Pictures(Dataset):
    def __init__(self, items):
        self.items = items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return self.items[index]


class Stream(IterableDataset):
    def __iter__(self):
        return iter([(EXPECTED[i], i) for i in range(5)])


@pytest.mark.parametrize(
    "dataset",
    [
        TensorDataset(EXPECTED, torch.arange(5)),
        Pictures([(Image.fromarray(BYTES[i]), i) for i in range(5)]),
        Pictures([(Image.fromarray(BYTES[i]).convert("RGBA").convert("RGB"), i) for i in range(5)]),
        Pictures([[BYTES[i], np.int64(i)] for i in range(5)]),
        Stream(),
    ],
)
def test_torch_data_sets(dataset):
    data = load(dataset)
    torch.testing.assert_close(data.images, EXPECTED, rtol=0, atol=1e-7)
    assert data.labels.tolist() == [0, 1, 2, 3, 4]


def test_torch_data_set_without_labels():
    data = from_dataset(Pictures(list(EXPECTED)), "mine")
    assert torch.equal(data.images, EXPECTED)
    assert (data.labels, data.name) == (None, "mine")


def test_bad_torch_data_sets_are_named():
    with pytest.raises(ValueError, match="images of one shape"):
        from_dataset(Pictures([EXPECTED[0], EXPECTED[0, :, 1:]]))
    with pytest.raises(ValueError, match="at least one item"):
        from_dataset(Pictures([]))
    with pytest.raises(ValueError, match="a label for all items or for none"):
        from_dataset(Pictures([(EXPECTED[0], 1), EXPECTED[1]]))


def test_names_of_classes(tmp_path):
    path = tmp_path / "a.npz"
    names = np.array(["sheep", "<goat>"])
    np.savez(path, images=np.zeros((2, 4, 4)), labels=np.arange(2), class_names=names)
    assert array_file(path).class_names == ("sheep", "<goat>")
    np.savez(path, images=np.zeros((2, 4, 4)), labels=np.arange(2), class_names=names[:1])
    with pytest.raises(ValueError, match="class"):
        array_file(path)
    broken = names.view(np.uint32).copy()
    broken[0] = 0xFFFFFFFF  # no letter
    np.savez(path, images=np.zeros((2, 4, 4)), class_names=broken.view(names.dtype))
    with pytest.raises(ValueError, match="class_names that are text"):
        array_file(path)


@pytest.mark.parametrize("name", ["nowhere.npy", "nowhere.npz"])
def test_a_file_that_is_not_there_is_not_fetched_again(tmp_path, name):
    with pytest.raises(ValueError, match=r"path: expected an existing file.*spelling"):
        array_file(tmp_path / name)
    (tmp_path / name).mkdir()
    with pytest.raises(ValueError, match=r"path: expected a file, got the folder"):
        array_file(tmp_path / name)
