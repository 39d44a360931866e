"""Content of files of ``torch.save``, read without unpickling any of it."""

import pickletools
import zipfile
from pathlib import Path

MOST = 2**26  # bytes of a pickle that are looked at; weights lie beside it
# What the pickle of a state_dict names: nothing else is needed to hold tensors.
TENSORS = (
    "collections OrderedDict",
    "torch._utils _rebuild_",
    "torch.storage ",
    "torch.serialization ",
)
KINDS = ("Storage", "Size", "device", "float", "bfloat16", "int", "uint8", "bool", "double", "half")


def saved_weights(path: Path) -> str | None:
    """Return what a file of ``torch.save`` contains besides TorchScript; None for other files.

    The pickle in it is read as a list of instructions, and none is carried out.

    Args:
        path: the file.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            names = {name.rpartition("/")[2]: name for name in archive.namelist()}
            if "data.pkl" not in names or "constants.pkl" in names:
                return None
            with archive.open(names["data.pkl"]) as stream:
                content = stream.read(MOST)
        words = [(code.name, argument) for code, argument, _ in pickletools.genops(content)]
    except Exception:  # damaged archives and pickles raise what they like
        return None if not zipfile.is_zipfile(path) else "a damaged file of torch.save"
    if not all(map(_holds_tensors, _imported(words))):
        return "a pickled module, which this command does not load"
    first = next((name for name, _ in words if name not in ("PROTO", "FRAME")), "")
    mapping = first in ("EMPTY_DICT", "DICT", "MARK", "GLOBAL", "STACK_GLOBAL")
    return "a state_dict, weights without their network" if mapping else "saved tensors"


def _imported(words: list[tuple[str, object]]) -> list[str]:
    """Return the names that a pickle imports, as "module name"; one that cannot be told is ""."""
    found = []
    for place, (name, argument) in enumerate(words):
        if name in ("GLOBAL", "INST"):
            found.append(str(argument))
        elif name == "STACK_GLOBAL":
            texts = [a for n, a in words[:place] if "UNICODE" in n or n == "STRING"]
            found.append(" ".join(map(str, texts[-2:])) if len(texts) > 1 else "")
        elif name in ("REDUCE", "NEWOBJ", "NEWOBJ_EX", "BUILD") and not found:
            found.append("")
    return found


def _holds_tensors(name: str) -> bool:
    known = name.startswith(TENSORS) or name == "torch.nn.parameter Parameter"
    return known or (name.startswith("torch ") and name.endswith(KINDS))
