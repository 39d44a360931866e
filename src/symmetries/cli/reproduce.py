"""``symmetries reproduce``: the tables of a paper, from a checkout of the repository."""

import subprocess
import sys
from json import loads
from pathlib import Path
from typing import Annotated

import typer

from symmetries.cli import options
from symmetries.cli.shown import write_json


@options.unbundled
def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="Name of a folder in papers/.")],
    table: Annotated[
        int | None, typer.Argument(metavar="TABLE", help="Number of a table of the paper.")
    ] = None,
    *,
    quick: Annotated[bool, typer.Option("--quick", help="The same as --preset quick.")] = False,
    preset: Annotated[
        str, typer.Option("--preset", help="paper, or quick for small data and about a minute.")
    ] = "paper",
    checkout: Annotated[
        Path | None,
        typer.Option(
            "--checkout", help="Clone of the repository to run. By default the one in use."
        ),
    ] = None,
    folder: options.Folder = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Output folder.", rich_help_panel=options.RESULT),
    ] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    machine: options.Machine,
) -> None:
    """Run the reproduction of a paper: papers/PAPER/run.py of a checkout of the repository.

    What is in the results already is not run again, with or without --resume. An option that the
    paper's script does not know is refused.

    [dim]Example:[/] symmetries reproduce genuine-invariance --quick
    """
    from symmetries._validation.checks import check_choice, invalid

    script = find_paper(paper, checkout)
    check_choice(preset, ("quick", "default", "paper"), "preset")
    if json and out is None:
        raise invalid("out", "a folder, with --json", "none", "name one with --out")
    known = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=True
    ).stdout
    usual = options.Machine()
    given = {
        "table": (table, ("--table",)),
        "folder": (folder, ("--folder", "--data")),
        "out": (out, ("--out",)),
        "device": (machine.device, ("--device",)),
        "precision": (machine.precision, ("--precision",)),
        "devices": (machine.devices, ("--devices",)),
        "nodes": (machine.nodes, ("--nodes",)),
        "seed": (machine.seed, ("--seed", "--first-seed")),
    }
    words = ["--quick"] if quick or preset == "quick" else []
    for name, (value, spellings) in given.items():
        if value is None or value == getattr(usual, name, None):
            continue
        spelling = next((word for word in spellings if f"{word} " in known), None)
        if spelling is None:
            remedy = f"leave it out, or see {script} --help"
            raise invalid(name, f"none, as the script of {paper} has no such option", value, remedy)
        words += [spelling, str(value)]
    silent = subprocess.DEVNULL if quiet or json else None
    done = subprocess.run([sys.executable, script, *words], check=False, stdout=silent)
    if done.returncode:
        raise typer.Exit(done.returncode)
    if json and out is not None:
        file = out if out.suffix == ".json" else out / "results.json"
        write_json(loads(file.read_text()))


def papers_folder(checkout: Path | None) -> Path | None:
    """Return the folder papers/ of the given checkout, or of the one in use.

    Never of the working folder: who only stands there has not said that its scripts may run.
    """
    import symmetries

    root = checkout or Path(symmetries.__file__).resolve().parents[2]
    return root / "papers" if any((root / "papers").glob("*/run.py")) else None


def find_paper(name: str, checkout: Path | None = None) -> Path:
    """Return the path of a paper's script."""
    from symmetries._validation.checks import invalid

    folder = papers_folder(checkout)
    if folder is None:
        got = "none" if checkout is None else f"none in {checkout}"
        remedy = "clone the repository, and name the clone with --checkout"
        raise invalid("papers", "a checkout with the folder papers/", got, remedy)
    names = sorted(path.parent.name for path in folder.glob("*/run.py"))
    if name not in names:
        raise invalid("paper", f"one of {', '.join(names)}", repr(name), "choose one of these")
    return folder / name / "run.py"
