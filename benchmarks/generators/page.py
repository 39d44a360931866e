"""The tables of docs/generators.md, from the stored results.

Run with: python -m benchmarks.generators.page --write
"""

import argparse
import json
from pathlib import Path

from benchmarks.generators.records import RESULTS

PAGE = Path(__file__).parents[2] / "docs" / "generators.md"
FALSE = "false certificates"  # runs, which only the file shows
BEGIN, END = "<!-- results -->", "<!-- end of results -->"
TITLES = {
    "o5": "O(5), read off trained networks (`python -m benchmarks.generators.o5`)",
    "false_certificates-networks-0.01": "Random networks (`python -m "
    "benchmarks.generators.false_certificates --kinds network`)",
    "false_certificates-networks-0.02": "Random networks, twice the epsilon (`--epsilon 0.02`)",
    "false_certificates-networks-0.005": "Random networks, half of it (`--epsilon 0.005`)",
    "false_certificates-tables-0.01": "Asymmetric tables (`--kinds table`)",
    "tails": "Violations in the tails, models of 60 and of 400 points "
    "(`python -m benchmarks.generators.tails`)",
    "tails_before": "The same, at a commit that looked at the data and a tenth farther out only",
    "systems": "Ten polynomial systems (`python -m benchmarks.generators.systems`)",
    "systems_again": "Ten systems, some seeds again (`--name systems_again`)",
    "subgroups": "Subgroups of SO(3) (`python -m benchmarks.generators.subgroups`)",
    "densities": "Unlabelled data (`python -m benchmarks.generators.densities`)",
    "streamed": "A million points (`python -m benchmarks.generators.streamed`)",
    "many_coordinates": "Many coordinates (`python -m benchmarks.generators.streamed --many`)",
    "2_body": "Two bodies (`python -m benchmarks.generators.n_body --degree 3`)",
    "2_body-liegan": "Two bodies, LieGAN's orbits and its generator (`--orbits FILE --peer FILE`)",
    "3_body": "Three bodies (`python -m benchmarks.generators.n_body --bodies 3`)",
    "peer_liegg": "LieGG's own code on the same networks "
    "(`python -m benchmarks.generators.peer_liegg CHECKOUT`)",
    "peer_lieflow": "LieFlow's own code beside `find_subgroup`: Wasserstein-1 as it defines it "
    "(`python -m benchmarks.generators.peer_lieflow CHECKOUT --cases C4=1000`)",
    "pictures": "Pictures (`python -m benchmarks.generators.pictures --folder DATA`)",
    "muons": "Pairs of muons (`python -m benchmarks.generators.muons`)",
    "planets": "Planets from 1900 to 2050 (`python -m benchmarks.generators.planets`)",
    "meshes": "Copies of meshes, moved by subgroups (`python -m benchmarks.generators.subgroups "
    "--mesh bunny duck`)",
}


def shown(value: object) -> str:
    """A value of a summary as text.

    Example:
        >>> shown(0.01234), shown(12), shown(None)
        ('0.0123', '12', 'none')
    """
    if value is None:
        return "none"
    return f"{value:.3g}" if isinstance(value, float) else f"{value}"


def setting(name: str, value: object) -> str:
    """A setting and its value as text.

    Example:
        >>> setting("seeds", "0 to 9"), setting("commits", {"0 to 9": "1a2b"})
        ('seeds 0 to 9', 'commits 1a2b (0 to 9)')
    """
    if isinstance(value, dict):
        value = "; ".join(f"{each} ({key})" for key, each in value.items())
    return f"{name} {', '.join(map(str, value)) if isinstance(value, list) else value}"


def tables() -> str:
    """All stored summaries as Markdown."""
    parts = []
    for name, title in TITLES.items():
        path = RESULTS / f"{name}.json"
        if not path.exists():
            continue
        result = json.loads(path.read_text())
        settings = ", ".join(
            setting(key, value) for key, value in result["settings"].items() if key != FALSE
        )
        rows = [f"| {key} | {shown(value)} |" for key, value in result["summary"].items()]
        parts += [f"**{title}**", "", "| | |", "| --- | --- |", *rows, ""]
        parts += [
            f"{settings}; commit `{result['commit']}`, {result['device']}, "
            f"{result['threads']} thread, {result['minutes']} minutes of a busy machine.",
            "",
        ]
    return "\n".join(parts)


def with_tables(page: str) -> str:
    """The page with its tables replaced."""
    before, _, rest = page.partition(BEGIN)
    return f"{before}{BEGIN}\n\n{tables()}\n{END}{rest.partition(END)[2]}"


def main() -> None:
    """Write or print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        PAGE.write_text(with_tables(PAGE.read_text()))
    else:
        print(tables())


if __name__ == "__main__":
    main()
