"""Bad input against every public entry point: each argument of a good call spoiled in many ways.

``python campaign/inputs.py`` goes through all; every cell must succeed or raise an exception with a
message. What counts: "ok"; "refused" by the library's own words (what was expected, what came, what
to do); "native", an error with words of Python, numpy, torch or pydantic; "broken", one that says
nothing to a user (AttributeError, KeyError, ZeroDivisionError, ...), a hang, or a crash.
"""

import argparse
import copy
import inspect
import json
import os
import re
import resource
import signal
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import recipes
import torch
from common import store
from torch import Tensor
from typer.testing import CliRunner

from symmetries.cli import app

OURS = re.compile(r": expected .+, got .+; \S", re.DOTALL)  # torch has "expected ... but got" too
NATIVE = (
    ValueError,
    TypeError,
    OSError,
    RuntimeError,
    IndexError,
    NotImplementedError,
    ImportError,
)
HANG = 120  # seconds for one cell: examples that train take some on a busy machine
MEMORY = 8 * 2**30  # bytes of address space for one entry point

ANYTHING: dict[str, Any] = {
    "None": None,
    "text": "text",
    "empty text": "",
    "object": object(),
    "list of unequal arrays": [np.zeros(2), np.zeros(3)],
    "object array": np.array([{}, None], dtype=object),
    "empty list": [],
    "dictionary": {"a": 1},
    "function": print,
}
NUMBERS: dict[str, Any] = {
    **{"negative": -1, "zero": 0, "huge": 10**18, "fraction": 0.5, "NaN": float("nan")},
    **{"infinite": float("inf"), "true": True, "tensor": torch.zeros(3)},
}
WORDS: dict[str, Any] = {
    **{"unknown word": "no-such-thing", "upwards": "../../etc", "zero byte": "a\0b"},
    **{"long": "x" * 10_000, "number": 3, "bytes": b"bytes"},
}
PATHS: dict[str, Any] = {
    "nowhere": Path("no/such/path"),
    "folder": Path(tempfile.gettempdir()),
    "device": Path("/dev/null"),
}


def spoiled(good: Any) -> dict[str, Any]:  # noqa: ANN401
    """Bad values in place of a good one, by their kind."""
    if isinstance(good, Tensor):
        return {**ANYTHING, **NUMBERS, **_tensors(good)}
    if isinstance(good, np.ndarray):
        tensors = _tensors(torch.as_tensor(good)) if good.dtype != object else {}
        arrays = {k: v.numpy() for k, v in tensors.items() if v.device.type == "cpu"}
        return {**ANYTHING, **NUMBERS, **arrays}
    if isinstance(good, Path):
        return {**ANYTHING, **NUMBERS, **PATHS, "zero byte": "a\0b"}
    if isinstance(good, str):
        return {**ANYTHING, **NUMBERS, **WORDS}
    if isinstance(good, list) and good and isinstance(good[0], Tensor):
        return {**ANYTHING, **NUMBERS, **{k: [v] for k, v in _tensors(good[0]).items()}}
    return {**ANYTHING, **NUMBERS}


def _tensors(good: Tensor) -> dict[str, Tensor]:
    """Tensors of a wrong rank, size, type, device or value."""
    found = {
        "one axis more": good[None],
        "one axis less": good[0] if good.ndim else good[None],
        "no examples": good[:0] if good.ndim else good,
        "no axes": torch.tensor(0.5),
        "another size": torch.cat([good, good], -1) if good.ndim else good,
        "a single number wide": good[..., :1] if good.ndim else good,
        "whole numbers": good.long() if good.is_floating_point() else good.float(),
        "bytes": (255 * good.double()).clamp(0, 255).to(torch.uint8),
        "true and false": good > 0,
        "double": good.double(),
        "half": good.to(torch.float16),
        "complex": good.to(torch.complex64),
        "no memory (meta)": good.to("meta"),
        "negative": -good.double().to(torch.float32) - 1,
        "huge": torch.full_like(good, 3e38, dtype=torch.float64).to(good.dtype),
    }
    if good.is_floating_point():
        found |= {"NaN": torch.full_like(good, float("nan"))}
        found |= {"infinite": torch.full_like(good, float("inf"))}
    return found


class HangError(Exception):
    """A cell took too long."""


def fresh(function: Any) -> Any:  # noqa: ANN401
    """The same method of a copy of its object: what one cell does to it is not seen by the next."""
    owner = getattr(function, "__self__", None)
    if owner is None or inspect.isclass(owner) or inspect.ismodule(owner):
        return function
    copied = copy.deepcopy(owner)
    for name, value in [*vars(copied).items()]:
        if "_Recorder" in getattr(value, "__qualname__", ""):
            del copied.__dict__[name]
    return getattr(copied, function.__name__)


def own(arguments: dict[str, Any]) -> dict[str, Any]:
    """Copies, where there can be: models are trained in place, and the next cell needs them."""
    copies = {}
    for name, value in arguments.items():
        try:
            copies[name] = copy.deepcopy(value)
        except Exception:  # a generator, a graph
            copies[name] = value
    return copies


def outcome(call: recipes.Call, arguments: dict[str, Any]) -> tuple[str, str]:
    """What a cell does: "ok", "refused", "native" or "broken", and its words."""

    def stop(number: int, frame: object) -> None:
        raise HangError(f"more than {HANG} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANG)
    try:
        fresh(call.function)(**own(arguments))
    except HangError as error:
        return "broken", str(error)
    except NATIVE as error:
        message = str(error)
        if OURS.search(message) or type(error).__module__.startswith("symmetries"):
            return "refused", message
        return ("native" if len(message) >= 10 else "broken"), f"{type(error).__name__}: {message}"
    except BaseException as error:
        return "broken", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    return "ok", ""


def try_entry(name: str, sample: int | None, seed: int = 0) -> list[dict[str, str]]:
    """All cells of an entry point, or some of them."""
    rows = []
    entry = recipes.entry_points()[name]
    calls = recipes.good_calls(name, entry)
    cells: list[tuple[recipes.Call, str, str, Any]] = [
        (call, argument, kind, value)
        for call in calls
        for argument, good in call.arguments.items()
        for kind, value in spoiled(good).items()
    ]
    if not calls:  # no example: everything wrong at once
        cells = [(recipes.Call("", entry, {}), "(all)", kind, v) for kind, v in ANYTHING.items()]
    if sample is not None and len(cells) > sample:
        chosen = np.random.default_rng(seed).choice(len(cells), sample, replace=False)
        cells = [cells[i] for i in sorted(chosen)]
    for call, argument, kind, value in cells:
        if argument == "(all)":
            function = call.function
            probe = recipes.Call("", lambda function=function, value=value: function(value), {})
            state, words = outcome(probe, {})
        else:
            state, words = outcome(call, {**call.arguments, argument: value})
        row = {"call": call.name, "argument": argument, "input": kind, "state": state}
        rows.append({**row, "words": words[:200]})
    return rows


def in_a_process(name: str, sample: int | None) -> list[dict[str, str]]:
    """The same in a child with limited memory: a crash is a row, not the end."""
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "rows.json"
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.chdir(scratch)
                sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115
                resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
                warnings.simplefilter("ignore")
                torch.set_num_threads(1)
                path.write_text(json.dumps(try_entry(name, sample)))
                code = 0
            except BaseException:
                path.with_name("error").write_text(traceback.format_exc())
            finally:
                os._exit(code)
        status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        if status:
            error = path.with_name("error")
            words = (
                error.read_text()[-300:] if error.exists() else f"the process ended with {status}"
            )
            row = {"call": "", "argument": "", "input": "", "state": "broken", "words": words}
            return [row]
        found: list[dict[str, str]] = json.loads(path.read_text())
        return found


def command_cells(folder: Path) -> dict[str, list[list[str]]]:
    """Bad words for every command; each must end with a line that helps, and nothing written."""
    nan = folder / "nan.npy"
    np.save(nan, np.full((5, 8, 8), np.nan))
    np.save(folder / "small.npy", np.zeros((5, 1, 1), np.uint8))
    np.save(folder / "objects.npy", np.array([{}], dtype=object))
    (folder / "empty").mkdir()
    (folder / "text.npz").write_text("text")
    bad_data = [
        *(
            "no-such-data",
            "",
            str(folder / "empty"),
            str(folder / "text.npz"),
            str(nan),
            "/dev/null",
        ),
        *(str(folder / "objects.npy"), str(folder / "small.npy"), str(folder / "images.idx")),
    ]
    out = ["--out", str(folder / "out")]
    bad_options = [
        *(["--group", "no-such-group"], ["--seed", "-1"], ["--seed", "x"]),
        *(["--device", "tpu"], ["--device", ""], ["--out", str(nan)], ["--resize", "0"]),
        *(["--resize", "x"], ["--no-such-option"], ["--preset", "none"]),
    ]
    cells = {}
    for name in ("discover", "fit", "orbit"):
        cells[name] = [[name, word, *out] for word in bad_data]
        cells[name] += [[name, "digits", *words] for words in bad_options]
    models = ("no-such-model", str(folder / "empty"), str(folder / "text.npz"), "")
    for name in ("audit", "augment"):
        cells[name] = [[name, model, "digits", *out] for model in models]
        cells[name] += [[name, str(folder / "model"), word, *out] for word in bad_data]
    cells["wrap"] = [["wrap", model, "digits", "--group", "rotation", *out] for model in models]
    cells["wrap"] += [["wrap", str(folder / "model"), word, *out] for word in bad_data]
    cells["prescribe"] = [["prescribe", word, *out] for word in bad_data]
    wrong = (["--seed", "x"], ["--device", "tpu"], ["--resize", "0"], ["--no-such-option"])
    cells["prescribe"] += [["prescribe", "digits", *words, *out] for words in wrong]
    cells["watch"] = [["watch", word, "digits", *out] for word in bad_data]
    cells["watch"] += [["watch", "digits", word, *out] for word in bad_data]
    table = folder / "table.csv"
    table.write_text("x,y,z\n" + "".join(f"{i},{i * i},{-i}\n" for i in range(40)))
    wrong = (["--target", "w"], ["--target", "x,y,z"], ["--fields", "x"], ["--law", "x"])
    wrong += (["--epsilon", "-1"], ["--level", "2"], ["--degree", "0"], ["--vectors", "5"])
    cells["generators"] = [["generators", word, *out] for word in bad_data]
    cells["generators"] += [["generators", str(table), *words, *out] for words in wrong]
    cells["reproduce"] = [["reproduce", "no-such-paper"], ["reproduce", ""], ["reproduce"]]
    cells["sweep"] = [["sweep", word] for word in ("no.toml", str(nan), str(folder / "empty"))]
    cells["sweep"] += [["sweep", str(folder / "sweep.toml"), "--processes", "0"]]
    cells["data list"] = [["data", "list", "surplus"]]
    cells["data describe"] = [["data", "describe", word] for word in bad_data]
    cells["data fetch"] = [["data", "fetch", word] for word in ("no-such-data", "", "../x")]
    return cells


def in_time(words: list[str]) -> Any:  # noqa: ANN401 - what typer's runner gives
    """Run a command; one that takes too long is stopped, and ends with another code."""

    def stop(number: int, frame: object) -> None:
        raise HangError(f"more than {HANG} s")

    signal.signal(signal.SIGALRM, stop)
    signal.alarm(HANG)
    try:
        return CliRunner().invoke(app, words)
    finally:
        signal.alarm(0)


def try_commands() -> dict[str, list[dict[str, str]]]:
    """Every command with bad words."""
    found: dict[str, list[dict[str, str]]] = {}
    cells = command_cells(recipes.files())
    for name in recipes.commands():
        rows = []
        for words in cells[name]:
            done = in_time(words)
            helpful = done.exit_code in (2, 3, 4) and len(done.output.strip()) > 20
            state = "refused" if helpful else ("ok" if done.exit_code == 0 else "broken")
            text = f"{done.exit_code}: {' '.join(words[1:])}: {done.output[-150:]}"
            rows.append({"call": "", "argument": "", "input": "", "state": state, "words": text})
        found[f"command {name}"] = rows
    return found


def main() -> None:
    """Try everything, and store the counts."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--entries", nargs="+", help="only those whose names begin so")
    parser.add_argument("--sample", type=int, help="cells of each entry point")
    parser.add_argument("--show", action="store_true", help="print what is broken or native")
    parser.add_argument("--rows", type=Path, help="write every cell to this file")
    options = parser.parse_args()
    started, rows_file = time.time(), options.rows and options.rows.resolve()
    os.chdir(tempfile.mkdtemp(prefix="inputs-"))
    counts: dict[str, dict[str, int]] = {}
    every: dict[str, list[dict[str, str]]] = {}
    begins = tuple(options.entries or [""])
    names = [name for name in recipes.entry_points() if name.startswith(begins)]
    found: dict[str, list[dict[str, str]]] = {} if options.entries else try_commands()
    for name in [*found, *names]:
        rows = found[name] if name in found else in_a_process(name, options.sample)
        every[name] = rows
        states = Counter(row["state"] for row in rows)
        counts[name] = {"cells": len(rows), **states}
        print(name, counts[name], flush=True)
        for row in rows if options.show else []:
            if row["state"] in ("broken", "native"):
                print("  ", row["call"], row["argument"], row["input"], row["words"][:150])
    if rows_file:
        rows_file.write_text(json.dumps(every, indent=1))
    total = Counter()
    for row in counts.values():
        total.update(row)
    print(len(counts), "entry points", dict(total))
    if not options.entries:
        store("inputs", {"entries": counts, "total": dict(total)}, started)


if __name__ == "__main__":
    main()
