"""``symmetries reproduce``: the tables of a paper, from a checkout of the repository."""

import subprocess
import sys
from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    paper: Annotated[str, typer.Argument(metavar="PAPER", help="A folder of papers/.")],
    table: Annotated[
        int | None, typer.Argument(metavar="[TABLE]", help="The number of a table.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small data, about a minute.")] = False,
    folder: Annotated[
        Path | None, typer.Option("--folder", help="Where data files lie; else $SYMMETRIES_DATA.")
    ] = None,
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda, ...")] = None,
    out: Annotated[Path | None, typer.Option("--out", help="Where results go.")] = None,
) -> None:
    """Run the reproduction of a paper: papers/PAPER/run.py of a checkout.

    [dim]Example:[/] symmetries reproduce genuine-invariance --quick
    """
    script = find_paper(paper)
    known = subprocess.run(
        [sys.executable, script, "--help"], capture_output=True, text=True, check=True
    ).stdout
    given: dict[str, object] = {"--table": table, "--folder": folder, "--data": folder}
    given |= {"--device": device, "--out": out}
    words = ["--quick"] if quick else []
    for option, value in given.items():
        if value is not None and option in known:
            words += [option, str(value)]
    if table is not None and "--table" not in known:
        from symmetries.checks import invalid

        remedy = f"leave it out, or see {script} --help"
        raise invalid("table", f"none, as {paper} runs as a whole", table, remedy)
    done = subprocess.run([sys.executable, script, *words], check=False)
    if done.returncode:
        raise typer.Exit(done.returncode)


def papers_folder() -> Path | None:
    """The folder papers/ of a checkout: above the working directory, or around the package."""
    import symmetries

    here = Path.cwd()
    package = Path(symmetries.__file__).resolve().parents[2]
    for root in (here, *here.parents, package):
        if any((root / "papers").glob("*/run.py")):
            return root / "papers"
    return None


def find_paper(name: str) -> Path:
    """The script of a paper."""
    from symmetries.checks import invalid

    folder = papers_folder()
    if folder is None:
        remedy = "clone the repository and run this inside of it"
        raise invalid("papers", "a checkout with the folder papers/", "none", remedy)
    names = sorted(path.parent.name for path in folder.glob("*/run.py"))
    if name not in names:
        raise invalid("paper", f"one of {', '.join(names)}", repr(name), "choose one of these")
    return folder / name / "run.py"
