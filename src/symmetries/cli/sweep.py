"""``symmetries sweep``: search for settings, with any number of processes on one study."""

import os
import subprocess
import sys
import time
from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from symmetries._utils.text import masked
from symmetries.cli import options
from symmetries.cli.shown import escape, plain_table, write_json

if TYPE_CHECKING:
    from symmetries.results import SweepResult

SHOWN = 10
RESULT = "result"  # the folder in OUT whose files appear together
WAIT = 60.0  # seconds for another process that writes the result, too
STORAGE = "SYMMETRIES_STORAGE"  # gives --storage where no list of processes shows it


@options.command
def sweep(
    config: Path,
    *,
    out: Path | None = None,
    processes: Annotated[int, typer.Option(min=1)] = 1,
    storage: Annotated[str | None, typer.Option(envvar=STORAGE)] = None,
    folder: Path | None = None,
    device: str = "auto",
    seed: Annotated[int | None, typer.Option(min=0)] = None,
    keep: bool = False,
    quiet: bool = False,
    json: bool = False,
) -> None:
    """Search for the best settings of a learner, or continue such a search.

    Start the same command on as many machines as you like: they share the study in OUT. A sweep
    that was interrupted goes on when it is started again. Writes sweep.json and report.html into
    OUT/result, both in one step.

    [dim]Example:[/] symmetries sweep papers/relaxed-equivariance/sweep-quick.toml --processes 2

    Options:
        config: A TOML file such as papers/*/sweep*.toml.
        out: Folder of the study. By default out/sweep-CONFIG.
        processes: Number of processes on this machine.
        storage: A database for Optuna, instead of a journal in OUT. Passwords are not stored.
        folder: Folder of the data files. By default $SYMMETRIES_DATA.
        device: Device: auto, cpu, cuda, and so on.
        seed: Random seed, instead of the one in CONFIG.
        keep: Keep the files of every run.
        quiet: Show no table.
        json: Print the result as JSON.
    """
    import shlex

    from symmetries.analysis.provenance import run_info
    from symmetries.analysis.settings import choose_device
    from symmetries.cli.output import check_name, output_folder, owned
    from symmetries.cli.runs import say_written
    from symmetries.sweeps import collect, join, read_config
    from symmetries.sweeps.study import process_name

    settings = read_config(config)
    if seed is not None:
        settings = settings.model_copy(update={"seed": seed})
    place = choose_device(device)
    out = out or Path("out") / f"sweep-{config.stem}"
    check_name(out)
    words = ["sweep", str(config), "--out", str(out)]
    words += [] if folder is None else ["--folder", str(folder)]
    words += [] if device == "auto" else ["--device", device]
    words += [] if seed is None else ["--seed", str(seed)]
    started = time.perf_counter()
    code = "import sys; from symmetries.cli import app; app(sys.argv[1:])"
    # -P: no modules of the working folder. The address, with its password, is in the environment.
    helper = [sys.executable, "-P", "-c", code, *words, "--quiet", *(["--keep"] if keep else [])]
    names = {**os.environ, **({} if storage is None else {STORAGE: storage})}
    helpers = [subprocess.Popen(helper, env=names) for _ in range(processes - 1)]

    def ready(joined: Collection[str]) -> bool:
        """Whether all helpers have joined or ended; else this process would do all short runs."""
        return all(
            process_name(helper.pid) in joined or helper.poll() is not None for helper in helpers
        )

    settled: dict[str, Any] = {"storage": storage, "device": device, "keep": keep}
    try:
        study = join(settings, out, data_folder=folder, ready=ready, **settled)
        codes = [process.wait() for process in helpers]
    finally:
        for process in helpers:
            process.terminate()
    if any(codes):
        raise RuntimeError(
            f"a process of the sweep ended with {next(filter(None, codes))}; see above"
        )
    words += [] if storage is None else ["--storage", masked(storage)]
    command = shlex.join(["symmetries", *words])
    target = out / RESULT
    # The study is read by who owns the result, so that an earlier state never replaces a later one.
    with owned(target, WAIT), output_folder(target, overwrite=True) as partial:
        seconds = time.perf_counter() - started
        result = collect(study, settings, run_info(command, settings.seed, place, seconds))
        result.save(partial / "sweep.json")
        (partial / "report.html").write_text(result.to_html(), encoding="utf-8")
    if json:
        write_json(result.model_dump(mode="json"))
    console = Console(emoji=False, stderr=json, quiet=quiet)
    console.print(table(result))
    console.print(f"{len(result.trials)} runs by {workers(study)} processes")
    say_written(console, target, ("sweep.json", "report.html"))


def workers(study: Any) -> int:  # noqa: ANN401 - of Optuna
    """Return the number of processes that worked on a study."""
    return len({trial.user_attrs.get("process") for trial in study.trials})


def table(result: "SweepResult") -> Table:
    """Return a table of the best runs."""
    from symmetries.report.sweep_report import setting_text

    names = list(dict.fromkeys(name for t in result.trials for name in t.settings))
    shown = plain_table(("run", *map(escape, names)), (escape(result.measure),))
    shown.add_column("state")
    for trial in result.trials[:SHOWN]:
        values = (escape(setting_text(trial.settings.get(name, ""))) for name in names)
        value = "" if trial.value is None else f"{trial.value:.4g}"
        shown.add_row(str(trial.number), *values, value, trial.state)
    return shown
