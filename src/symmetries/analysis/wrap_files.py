"""Files that hold a wrapped model, compared with the module before they are kept."""

import copy
import logging
import warnings
from hashlib import sha256
from pathlib import Path

import torch
from torch import Tensor

from symmetries._validation.checks import invalid
from symmetries.analysis.canonicalised import CanonicalisedModel
from symmetries.auditing.onnx_check import first_line
from symmetries.results import ExportedFile

PROGRAM, ONNX = "wrapped.pt2", "wrapped.onnx"
TOLERANCE = 1e-3  # of the largest output


def export_checked(
    module: CanonicalisedModel, folder: Path, pictures: Tensor
) -> tuple[ExportedFile, ...]:
    """Write wrapped.pt2 (torch.export) and wrapped.onnx, both for any number of pictures.

    Each file is read again and compared with the module, on all pictures at once, on some, and on
    one. A file that differs is removed and refused.

    Args:
        module: on any device; the files are made on a CPU.
        folder: that exists.
        pictures: (N, C, H, W), moved ones among them.
    """
    still = copy.deepcopy(module).cpu()
    with torch.no_grad():
        expected = still(pictures)
    still.check_tensor(expected)
    program = _exported(still, pictures)
    torch.export.save(program, folder / PROGRAM)
    loaded = torch.export.load(folder / PROGRAM).module()
    files = [_compared(folder / PROGRAM, lambda x: loaded(x), pictures, expected)]
    files.append(_onnx_file(program, folder / ONNX, pictures, expected))
    return tuple(files)


def _exported(module: CanonicalisedModel, pictures: Tensor) -> torch.export.ExportedProgram:
    batch = {0: torch.export.Dim("batch")}
    try:
        return torch.export.export(module, (pictures,), dynamic_shapes=(batch,), strict=True)
    except Exception as error:  # whatever torch cannot trace
        got = f"{type(error).__name__}: {first_line(error)}"
        remedy = "give a module of torch, or an ONNX file that symmetries audit converts"
        raise invalid("model", "one that torch.export can trace", got, remedy) from error


def _onnx_file(
    program: torch.export.ExportedProgram, path: Path, pictures: Tensor, expected: Tensor
) -> ExportedFile:
    try:
        import onnxruntime
        import onnxscript  # noqa: F401 - what torch.onnx needs
    except ImportError as error:
        remedy = 'install them: pip install "symmetries[onnx]"'
        raise invalid("onnx", "onnxruntime and onnxscript", str(error), remedy) from error
    level = logging.getLogger("torch.onnx").level
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)  # it tells that torchvision is missing
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                program, (pictures,), path, dynamo=True, verbose=False, external_data=False,
                input_names=["images"], output_names=["answer"],
            )  # fmt: skip
    except Exception as error:  # whatever the exporter does not know
        got = f"{type(error).__name__}: {first_line(error)}"
        remedy = "use operations that ONNX has"
        raise invalid("model", "one that torch.onnx can export", got, remedy) from error
    finally:
        logging.getLogger("torch.onnx").setLevel(level)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name

    def call(x: Tensor) -> Tensor:
        return torch.from_numpy(session.run(None, {name: x.numpy()})[0])

    return _compared(path, call, pictures, expected)


def _compared(path: Path, call: object, pictures: Tensor, expected: Tensor) -> ExportedFile:
    """Return the record of a file, if it gives what the module gives; else it is removed."""
    scale, off = float(expected.abs().max()), 0.0
    try:
        with torch.no_grad():
            for count in (len(pictures), len(pictures) // 2 + 1, 1):
                found = call(pictures[:count])  # type: ignore[operator]
                off = max(off, float((found - expected[:count]).abs().max()))
    except Exception as error:  # of a file that does not run
        path.unlink()
        got = f"{type(error).__name__}: {first_line(error)}"
        remedy = "give the model as module:callable, another group, or one view"
        raise invalid(path.name, "a file that runs", got, remedy) from error
    if not off <= TOLERANCE * scale:
        path.unlink()
        got = f"outputs that differ by {off:.2g} where they are up to {scale:.2g}"
        raise invalid(path.name, "what the module gives", got, "use the module itself (fitted)")
    content = path.read_bytes()
    return ExportedFile(
        name=path.name,
        size=len(content),
        sha256=sha256(content).hexdigest(),
        pictures=len(pictures),
        difference=off,
        scale=scale,
    )
