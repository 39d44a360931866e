"""``symmetries reproduce``: the tables of a paper, from a checkout of the repository."""

import shlex
import subprocess
import sys
from collections.abc import Mapping
from json import loads
from pathlib import Path
from typing import Annotated, Any

import typer

from symmetries.cli import options
from symmetries.cli.shown import write_json

Given = Mapping[str, tuple[Any, tuple[str, ...]]]


@options.command
def reproduce(
    paper: str,
    table: str | None = None,
    *,
    everything: Annotated[bool, typer.Option("--all")] = False,
    quick: bool = False,
    preset: str = "paper",
    checkout: Path | None = None,
    folder: options.Folder = None,
    out: Annotated[Path | None, typer.Option(rich_help_panel=options.RESULT)] = None,
    quiet: options.Quiet = False,
    json: options.Json = False,
    machine: options.Machine,
) -> None:
    """Run the reproduction of a paper, or one table of it, from a checkout of the repository.

    Says how long a table takes, runs what OUT (out/PAPER by default) does not hold yet, and prints
    the table with the paper's numbers beside ours. Without TABLE and --all it runs
    papers/PAPER/run.py. An option that the paper's script does not know is refused.

    [dim]Example:[/] symmetries reproduce genuine-invariance --quick

    Options:
        paper: Name of a folder in papers/.
        table: A table or figure of the paper: 1, or figure-8.
        everything: All tables, and a page that shows them: OUT/page.md.
        quick: The same as --preset quick.
        preset: paper, or quick for small data and about a minute.
        checkout: Clone of the repository to run. By default the one in use.
        out: Output folder.
    """
    from symmetries._validation.checks import check_choice, invalid

    script = find_paper(paper, checkout)
    check_choice(preset, ("quick", "default", "paper"), "preset")
    if json and out is None:
        raise invalid("out", "a folder, with --json", "none", "name one with --out")
    small = quick or preset == "quick"
    parts = {} if small else table_parts(script, paper)
    if everything and (table is not None or small):
        got = "--quick" if small else f"TABLE {table}"
        raise invalid("all", "neither TABLE nor --quick beside it", got, "leave one of them out")
    table = next((n for n, part in parts.items() if table in (n, *part.get("also", ()))), table)
    if parts and table is not None and table not in parts:
        known = ", ".join(parts)
        raise invalid("table", f"one of {known}", repr(table), "choose one of these")
    wanted = list(parts) if everything else [table] if table in parts else []
    usual = options.Machine()
    given = {
        "table": (None if wanted else table, ("--table",)),
        "folder": (folder, ("--folder", "--data")),
        "out": (None if wanted else out, ("--out",)),
        "device": (machine.device, ("--device",)),
        "precision": (machine.precision, ("--precision",)),
        "devices": (machine.devices, ("--devices",)),
        "nodes": (machine.nodes, ("--nodes",)),
        "seed": (machine.seed, ("--seed", "--first-seed")),
    }
    given = {
        name: (value, spellings)
        for name, (value, spellings) in given.items()
        if value is not None and value != getattr(usual, name, None)
    }
    silent = quiet or json
    if not wanted:
        run_script(script, ["--quick"] if small else [], given, silent)
    else:
        out = out or Path("out") / paper
        run_tables(script, paper, {name: parts[name] for name in wanted}, out, given, silent)
        if everything:
            write_page(script, paper, out)
    if json and out is not None:
        file = out if out.suffix == ".json" else out / "results.json"
        write_json(loads(file.read_text()))


def table_parts(script: Path, paper: str) -> dict[str, dict[str, Any]]:
    """What parts.json says of the tables of a paper: title, commands, and minutes that they take.

    Args:
        script: papers/PAPER/run.py.
        paper: name of its folder.
    """
    file = script.parents[1] / "parts.json"
    if not file.exists():
        return {}
    return loads(file.read_text())["papers"].get(paper, {})


def run_script(script: Path, words: list[str], given: Given, silent: bool) -> None:
    """Run a script of a paper with options in its own spelling; ends the command if it fails.

    Args:
        script: the Python file.
        words: its first arguments.
        given: by name of the option: its value, and how scripts may spell it.
        silent: whether the script's output is dropped.
    """
    from symmetries._validation.checks import invalid

    known = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=True
    ).stdout
    words = list(words)
    for name, (value, spellings) in given.items():
        spelling = next((word for word in spellings if f"{word} " in known), None)
        if spelling is None:
            expected = f"none, as the script of {script.parent.name} has no such option"
            raise invalid(name, expected, value, f"leave it out, or see {script} --help")
        words += [spelling, str(value)]
    stdout = subprocess.DEVNULL if silent else None
    done = subprocess.run([sys.executable, script, *words], check=False, stdout=stdout)
    if done.returncode:
        raise typer.Exit(done.returncode)


def run_tables(
    script: Path,
    paper: str,
    parts: dict[str, dict[str, Any]],
    out: Path,
    given: Given,
    silent: bool,
) -> None:
    """Say how long each table takes, run it, and print it in the paper's layout."""
    out.mkdir(parents=True, exist_ok=True)
    for name, part in parts.items():
        if not silent:
            typer.echo(f"{part['title']}: {duration(part)}. What {out} holds is not run again.")
        for command in part["commands"]:
            file, *words = shlex.split(command)
            filled = [word.replace("{out}", str(out)) for word in words]
            run_script(script.with_name(file), filled, given, silent)
        if not silent:
            layouts = script.parents[1] / "layouts.py"
            subprocess.run([sys.executable, layouts, paper, str(out), name], check=True)


def write_page(script: Path, paper: str, out: Path) -> None:
    """Write all tables of a paper to OUT/page.md."""
    from symmetries.training.atomic_files import write_atomic

    layouts = script.parents[1] / "layouts.py"
    made = subprocess.run(
        [sys.executable, layouts, "--page", paper, str(out)],
        check=True,
        capture_output=True,
        text=True,
    )
    write_atomic(out / "page.md", f"# {paper}\n\n{made.stdout}".encode())
    typer.echo(f"wrote {out / 'page.md'}")


def duration(part: Mapping[str, Any]) -> str:
    """Return how long a table takes, by what was measured.

    Example:
        >>> duration({"gpu": 2, "cpu": 44})
        'about 2 minutes on an NVIDIA H200, 44 minutes on two CPU cores'
        >>> duration({"gpu": 6, "cpu": None})
        'about 6 minutes on an NVIDIA H200; on a CPU it was not measured, expect hours'
        >>> duration({"gpu": 6, "cpu": 1500})
        'about 6 minutes on an NVIDIA H200, 25 hours on two CPU cores'
    """
    minutes = "minute" if part["gpu"] == 1 else "minutes"
    said = f"about {part['gpu']} {minutes} on an NVIDIA H200"
    if part["cpu"] is None:
        return f"{said}; on a CPU it was not measured, expect hours"
    long = part["cpu"] > 120
    length = f"{part['cpu'] / 60:.0f} hours" if long else f"{part['cpu']} minutes"
    return f"{said}, {length} on two CPU cores"


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
