"""Small runs of every command that a signal meets at a change of files: for outputs.py."""

import hashlib
import json
import os
import re
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime  # noqa: F401 - once, not in every process
import optuna
import sklearn.datasets  # noqa: F401
import small_runs
from kills import child, ended
from markupsafe import Markup
from typer.testing import CliRunner

import symmetries.analysis.wrapping
import symmetries.report.sweep_report
import symmetries.sweeps  # noqa: F401
from symmetries.cli import app, replacing
from symmetries.data import remote
from symmetries.learners.symmetry_model import SymmetryModel
from symmetries.monitoring import Watcher
from symmetries.report import figures

CHANGES = ("rename", "replace", "link", "symlink", "unlink", "rmdir", "mkdir", "chmod")
COMMANDS: dict[str, list[str]] = {
    "orbit": ["orbit", "a.npz", "--group", "rotation"],
    "audit": ["audit", "plain:net", "a.npz", "--group", "c4", "--examples", "4"],
    "augment": ["augment", "model", "a.npz"],
    "discover": ["discover", "a.npz", "--group", "rotation"],
    "fit": ["fit", "a.npz", "--group", "rotation"],
    "fit --network": ["fit", "a.npz", "--group", "rotation", "--network", "cnn"],
    "generators": ["generators", "table.npz", "--fields", "linear", "--degree", "2"],
    "watch": ["watch", "reference.npz", "stream.npz"],
    "data fetch": ["data", "fetch", "mnist"],
    "wrap": ["wrap", "plain:module", "reference.npz", "--group", "c4"],
    "prescribe": ["prescribe", "labelled.npz"],
    "sweep": ["sweep", "a.toml"],
}
FETCHED = {"one.gz": b"1" * 1000, "two.gz": b"2" * 1000}  # what a server of our own sends
COUNTED = "counted"  # the file with the number of changes of the last whole run
RESUMED = ("audit", "augment", "discover", "fit", "fit --network", "watch", "wrap")
SWEEP = """
learner = "relaxed"
data = "digits"
measure = "accuracy"
images = 20
sampler = "random"
trials = {trials}
[settings]
steps = 1
width = 2
[search]
lr = {{low = 0.001, high = 0.1}}
"""


def prepare(folder: Path) -> None:
    """Write pictures, a table, a function to audit, and a model to augment with."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 2))
    np.savez(folder / "table.npz", x=x, y=(x**2).sum(1))
    np.savez(folder / "reference.npz", images=rng.random((240, 8, 8)))
    np.savez(folder / "stream.npz", images=rng.random((130, 8, 8)))
    np.savez(folder / "labelled.npz", images=rng.random((96, 8, 8)), labels=np.arange(96) % 2)
    np.savez(folder / "a.npz", images=rng.random((72, 8, 8)), labels=np.arange(72) % 2)
    (folder / "plain.py").write_text(
        "import torch\nweight = torch.randn(64, 2, generator=torch.Generator().manual_seed(0))\n"
        "def net(x):\n    return x.flatten(1) @ weight\n"
        "module = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 2))\n"
        "module.load_state_dict({'1.weight': weight.T, '1.bias': torch.zeros(2)})\n"
    )
    SymmetryModel("rotation", (1, 8, 8), "quick").save(folder / "model")
    small_runs.small_presets()
    small_runs.CHECKPOINT_EVERY = 6
    serve_downloads()
    figures.to_svg = lambda figure: Markup("")  # drawing takes longer than the rest of a run
    sys.modules["symmetries.cli.sweep"].WAIT = 1.0  # type: ignore[attr-defined]
    sys.modules["symmetries.cli.watch"].WRITE_EVERY = 50  # type: ignore[attr-defined]
    journal = optuna.storages.journal  # a killed process leaves its lock, which lasts 30 seconds
    if not isinstance(journal.JournalFileOpenLock, partial):
        journal.JournalFileOpenLock = partial(journal.JournalFileOpenLock, grace_period=1)


def serve_downloads() -> None:
    """Let ``data fetch`` fetch from a server in this process, once."""
    if remote.REMOTE["mnist"][0].path.endswith("one.gz"):
        return
    os.environ["NO_PROXY"] = os.environ["no_proxy"] = "127.0.0.1"
    server = ThreadingHTTPServer(("127.0.0.1", 0), Downloads)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    hosts = (f"http://127.0.0.1:{server.server_address[1]}/",)
    remote.REMOTE["mnist"] = [
        remote.RemoteFile(f"mnist/{name}", hosts, hashlib.sha256(content).hexdigest())
        for name, content in FETCHED.items()
    ]


class Downloads(BaseHTTPRequestHandler):
    """Sends the files that are fetched."""

    def do_GET(self) -> None:
        """Send a file."""
        content = FETCHED[self.path.lstrip("/")]
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        with suppress(OSError):  # a killed process does not listen
            self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


def damage(folder: Path, name: str) -> None:
    """Spoil the files that were fetched, so that there is something to fetch again."""
    for file in FETCHED if name == "data fetch" else ():
        (folder / "out" / "mnist").mkdir(parents=True, exist_ok=True)
        (folder / "out" / "mnist" / file).write_bytes(b"damaged")


def target(folder: Path, name: str) -> Path:
    """Return what a command writes."""
    return folder / ("out.npz" if name == "augment" else "out")


def invoke(folder: Path, name: str, seed: int, *more: str) -> int:
    """Run a command in this process; its exit code. A sweep goes on for one or two runs more."""
    os.chdir(folder)
    if name == "data fetch":
        return CliRunner().invoke(app, [*COMMANDS[name], "--folder", "out"]).exit_code
    words = [*COMMANDS[name], "--out", target(folder, name).name, "--quiet"]
    words += [] if name in ("generators", "watch") else ["--device", "cpu"]
    if name == "sweep":
        file = folder / "out" / "result" / "sweep.json"
        trials = len(json.loads(file.read_text())["trials"]) if file.exists() else 0
        (folder / "a.toml").write_text(SWEEP.format(trials=trials + 1 + seed % 2))
    else:
        words += ["--seed", str(seed), *more]
    return CliRunner().invoke(app, words).exit_code


def disturbed(folder: Path, name: str, seed: int, place: int, what: int, *more: str) -> None:
    """Run a command that gets the signal ``what`` before its change number ``place``."""
    seen = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            nonlocal seen
            # Who is stopped while he holds Optuna's own lock loses it after a while: not our doing.
            counts = what == signal.SIGKILL or "journal" not in str(arguments)
            seen += counts
            if counts and seen == place:
                os.kill(os.getpid(), what)
            return function(*arguments, **options)

        return call

    for change in CHANGES:
        setattr(os, change, counted(getattr(os, change)))
    replacing.exchange = counted(replacing.exchange)
    code = invoke(folder, name, seed, *more)
    (folder / COUNTED).write_text(str(seen))
    os._exit(code)


def plainly(folder: Path, name: str, seed: int, *more: str) -> int | None:
    """Run a command in a process of its own, undisturbed; its exit code."""
    return ended(child(lambda: os._exit(invoke(folder, name, seed, *more))), wait=True)


def state(out: Path) -> set[int | str]:
    """Return the seeds that the parts of an output name; one, unless it is a mixture."""
    if out.suffix == ".npz":
        with np.load(out) as arrays:  # raises where it is not whole
            return {hashlib.sha256(arrays["images"].tobytes()).hexdigest()}
    if (out / "result").exists():  # of a sweep: by the number of its runs
        trials = json.loads((out / "result" / "sweep.json").read_text())["trials"]
        page = (out / "result" / "report.html").read_text()
        done = sum(trial["state"] == "complete" for trial in trials)
        return {done, *map(int, re.findall(r"(\d+) runs were completed", page))}
    if (out / "mnist").exists():  # of a fetch: every file is as it was, or whole
        files = [path for path in (out / "mnist").iterdir() if not path.name.startswith(".")]
        return {0, *(p.name for p in files if p.read_bytes() not in (FETCHED[p.name], b"damaged"))}
    (result,) = out.glob("*.json")
    numbers = json.loads(result.read_text())
    found: set[int | str] = {numbers["run"]["seed"]}
    if result.name == "watch.json":  # the pictures that each file has seen, too
        kept, said = Watcher.load(out / "state"), (out / "watch.prom").read_text()
        seen = {numbers["pictures"], kept.test.number, (kept.position["after"] or [0])[0]}
        seen |= {int(number) for number in re.findall(r"watch_pictures (\d+)", said)}
        return {*found, kept.test.seed, *(f"{n} pictures" for n in seen if len(seen) > 1)}
    page = (out / "report.html").read_text()
    found |= {int(number) for number in re.findall(r"--seed (\d+)", page)} or {0}
    if result.name in ("symmetries.json", "metrics.json"):
        meta = json.loads((out / "model" / "model.json").read_text())["meta"]
        found.add(meta["seed"] if "seed" in meta else meta["parameters"]["random_state"])
    return found


def content(out: Path) -> str:
    """Return a digest of the numbers and the weights of an output, without times."""
    if out.suffix == ".npz":
        return str(*state(out))
    digest = hashlib.sha256()
    for result in sorted([*out.glob("*.json"), *out.glob("state/*.json")]):
        numbers = json.loads(result.read_text())
        for name in ("run", "seconds", "sha256", "latency"):
            numbers.pop(name, None)
        for file in numbers.get("files", []):  # archives of torch.export hold what is random
            file.pop("sha256" if file["name"].endswith(".pt2") else "", None)
        digest.update(json.dumps(numbers, sort_keys=True).encode())
    for weights in sorted(out.rglob("*.safetensors")):
        digest.update(weights.read_bytes())
    return digest.hexdigest()


def whole(out: Path, where: str) -> set[int | str]:
    """Return the state of an output, or one that is not whole."""
    try:
        return state(out)
    except Exception as error:  # nothing there, or half of it
        print(f"{where}: {type(error).__name__}: {error}", flush=True)
        return {"nothing", "whole"}


def left_over(folder: Path) -> list[str]:
    """Return names of what should not be there when no run is under way."""
    found = [p.name for p in folder.rglob("*") if p.name.startswith(".") or "resume" in p.name]
    return [name for name in found if not name.startswith("study.journal")]


def places(count: int, most: int | None) -> list[int]:
    """Return the changes to disturb, all or some: the first, the last, and others between them."""
    if most is None or most >= count:
        return list(range(1, count + 1))
    return sorted({round(place) for place in np.linspace(1, count, most)})


def count_changes(folder: Path, name: str, what: int, *more: str) -> int:
    """Return how many changes of the file system a run makes."""
    damage(folder, name)
    work = partial(disturbed, folder, name, 1, 0, what, *more)
    if ended(child(work), wait=True):
        raise SystemExit(f"{name}: the undisturbed run failed")
    return int((folder / COUNTED).read_text())


def stopped_or_ended(pid: int) -> int | None:
    """Wait for a child: its exit code, None where it was stopped."""
    _, status = os.waitpid(pid, os.WUNTRACED)
    return None if os.WIFSTOPPED(status) else os.waitstatus_to_exitcode(status)


def overwriting(name: str) -> tuple[str, ...]:
    """Return the option that lets a command overwrite; some need none."""
    return () if name in ("data fetch", "sweep") else ("--overwrite",)


def resuming(name: str) -> tuple[str, ...]:
    """Return the options that let a command go on; watch does so by itself, others not at all."""
    return ("--overwrite", "--resume") if name in RESUMED and name != "watch" else ()
