"""Reader for the pickles of CIFAR's "python version" that runs no code.

A pickle is a program for a stack machine, which may import and call anything. This reader
supports only numbers, strings, lists, tuples, dictionaries and NumPy arrays of bytes. It imports
nothing, calls nothing, and refuses everything else.
"""

import pickletools
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from symmetries._validation.checks import invalid
from symmetries.data.checked_files import AGAIN

_RECONSTRUCT = {
    ("numpy.core.multiarray", "_reconstruct"),
    ("numpy._core.multiarray", "_reconstruct"),
}
_ENCODE = {("_codecs", "encode")}
_ALLOWED = _RECONSTRUCT | _ENCODE | {("numpy", "ndarray"), ("numpy", "dtype")}
_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1"),
    *("STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False}
_TUPLES = {"EMPTY_TUPLE": 0, "TUPLE1": 1, "TUPLE2": 2, "TUPLE3": 3}


class _Mark:
    """Marker of the first item of a group on the stack."""


class _Name(tuple[str, str]):
    """A name that the pickle would import, kept as module and attribute."""


class _Call:
    """A call that the pickle would make, kept as its name, arguments and state."""

    def __init__(self, name: _Name, arguments: tuple[Any, ...]) -> None:
        self.name = name
        self.arguments = arguments
        self.state: Any = None


class _Refused(Exception):
    """The pickle contains an instruction that plain data does not need."""


class _Machine:
    """Stack machine of the pickle format, restricted to plain data."""

    def __init__(self) -> None:
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, data: bytes) -> object:
        for opcode, argument, _ in pickletools.genops(data):
            self.step(opcode.name, argument)
        return self.stack.pop()

    def since_mark(self) -> list[Any]:
        place = len(self.stack) - 1
        while not isinstance(self.stack[place], _Mark):
            place -= 1
            if place < 0:
                raise _Refused("a group without a beginning")
        items = self.stack[place + 1 :]
        del self.stack[place:]
        return items

    def step(self, op: str, argument: Any) -> None:  # noqa: ANN401
        stack = self.stack
        if op in ("PROTO", "FRAME", "STOP"):
            return
        if op in _VALUES:
            stack.append(argument)
        elif op in _CONSTANTS:
            stack.append(_CONSTANTS[op])
        elif op in _TUPLES:
            count = _TUPLES[op]
            items = tuple(stack[len(stack) - count :])
            del stack[len(stack) - count :]
            stack.append(items)
        elif op == "MARK":
            stack.append(_Mark())
        elif op == "TUPLE":
            stack.append(tuple(self.since_mark()))
        elif op in ("EMPTY_LIST", "EMPTY_DICT"):
            stack.append([] if op == "EMPTY_LIST" else {})
        elif op in ("LIST", "DICT"):
            items_ = self.since_mark()
            stack.append(items_ if op == "LIST" else _pairs(items_))
        elif op in ("APPEND", "APPENDS"):
            added = self.since_mark() if op == "APPENDS" else [stack.pop()]
            _of_kind(stack[-1], list).extend(added)
        elif op in ("SETITEM", "SETITEMS"):
            added = self.since_mark() if op == "SETITEMS" else [stack.pop(-2), stack.pop()]
            _of_kind(stack[-1], dict).update(_pairs(added))
        elif op in ("BINPUT", "LONG_BINPUT", "PUT", "MEMOIZE"):
            self.memo[len(self.memo) if op == "MEMOIZE" else argument] = stack[-1]
        elif op in ("BINGET", "LONG_BINGET", "GET"):
            stack.append(self.memo[argument])
        elif op in ("GLOBAL", "STACK_GLOBAL"):
            words = argument.split(" ") if op == "GLOBAL" else [stack.pop(-2), stack.pop()]
            stack.append(_allowed(words))
        elif op == "REDUCE":
            arguments = _of_kind(stack.pop(), tuple)
            stack.append(_Call(_of_kind(stack.pop(), _Name), arguments))
        elif op == "BUILD":
            state = stack.pop()
            _of_kind(stack[-1], _Call).state = state
        else:
            raise _Refused(f"the instruction {op}")


def _of_kind(value: Any, kind: type) -> Any:  # noqa: ANN401
    if not isinstance(value, kind):
        raise _Refused(f"{type(value).__name__} where {kind.__name__} was expected")
    return value


def _allowed(words: list[str]) -> _Name:
    if len(words) != 2 or tuple(map(_text, words)) not in _ALLOWED:
        raise _Refused(f"the name {'.'.join(map(_text, words))}")
    return _Name(words)


def _pairs(items: list[Any]) -> dict[Any, Any]:
    keys = [_text(key) for key in items[::2]]
    return dict(zip(keys, items[1::2], strict=True))


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    return str(_of_kind(value, str))


def _resolve(value: object) -> Any:  # noqa: ANN401
    """Return the value of a recorded call; other values are returned unchanged."""
    if not isinstance(value, _Call):
        return value
    if value.name in _ENCODE:
        return _raw(value)
    if value.name in _RECONSTRUCT:
        return _array(value.state)
    raise _Refused(f"a {'.'.join(value.name)} outside an array")


def _raw(value: object) -> bytes:
    if isinstance(value, _Call) and value.name in _ENCODE:
        value = value.arguments[0]
    return value if isinstance(value, bytes) else str(_of_kind(value, str)).encode("latin-1")


def _array(state: object) -> NDArray[np.uint8]:
    _version, shape, dtype, fortran, data = _of_kind(state, tuple)
    dtype = _of_kind(dtype, _Call)
    if dtype.name != ("numpy", "dtype") or _text(dtype.arguments[0]) not in ("u1", "|u1"):
        raise _Refused("an array of something other than bytes")
    raw = _raw(data)
    return np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


def read_plain_pickle(data: bytes, path: Path, keys: Collection[str]) -> dict[str, Any]:
    """Read entries of the dictionary in a pickle; anything that would run code is refused.

    Args:
        data: the bytes of the pickle.
        path: the file, for error messages.
        keys: the entries to return; missing entries are left out.

    Example:
        >>> import pickle
        >>> read_plain_pickle(pickle.dumps({"labels": [1, 2]}), Path("demo"), ["labels"])
        {'labels': [1, 2]}
    """
    try:
        entries = _of_kind(_Machine().run(data), dict)
        return {key: _resolve(entries[key]) for key in keys if key in entries}
    except _Refused as error:
        remedy = "do not open it elsewhere: it is not a CIFAR file"
        raise invalid(str(path), "a pickle of plain data", f"{error}", remedy) from None
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError) as error:
        raise invalid(str(path), "a complete pickle", f"{error}", AGAIN) from error
