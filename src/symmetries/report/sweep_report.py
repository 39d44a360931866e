"""Report of ``symmetries sweep``: the best settings, and the progress of the search."""

from collections.abc import Sequence

from markupsafe import Markup
from matplotlib.figure import Figure

from symmetries.report import figures
from symmetries.report.page import Answer, Drawing, Page, Section, Table
from symmetries.report.page_blocks import run_facts
from symmetries.results import SweepResult, Trial

SHOWN = 40  # largest number of rows of the table
NARROW = 3.6  # width of a figure in inches


def sweep_page(result: SweepResult) -> Page:
    """Build the page for a sweep.

    Args:
        result: trials of the sweep, best first.
    """
    done = [trial for trial in result.trials if trial.value is not None]
    counts = {state: sum(t.state == state for t in result.trials) for state in ("pruned", "fail")}
    text = f"{len(done)} runs were completed, {counts['pruned']} stopped early."
    if counts["fail"]:
        text += f" {counts['fail']} failed or were lost with their process."
    answers = []
    if done:
        answers = [Answer(result.measure, f"{done[0].value:.4g}", "full")]
        answers += [Answer(name, setting_text(v)) for name, v in done[0].settings.items()]
    sections = []
    if done:
        alt = f"{result.measure} of every run and the best one so far."
        drawing = Drawing(progress(result, done), alt)
        sections.append(Section("Progress of the search", "", blocks=[drawing]))
        drawings = [
            Drawing(against(result, done, name), f"{result.measure} against {name}.", title=name)
            for name in done[0].settings
        ]
        sections.append(Section("Influence of each setting", "", blocks=drawings, columns=True))
    sections.append(Section("Runs", "", blocks=[table(result)]))
    return Page(
        title=f"Sweep of {result.learner} on {result.data}",
        lede=text,
        answers=answers,
        sections=sections,
        settings={
            "data": result.data,
            **{name: setting_text(value) for name, value in result.settings.items()},
            **run_facts(result.run),
        },
        rerun=result.run.command,
    )


def setting_text(value: object) -> str:
    """Format a setting for display.

    Example:
        >>> setting_text(0.000316227), setting_text(True)
        ('0.0003162', 'True')
    """
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def table(result: SweepResult) -> Table:
    """Build the table of the best runs."""
    names = list(dict.fromkeys(name for t in result.trials for name in t.settings))
    rows = [
        [
            str(trial.number),
            *(setting_text(trial.settings.get(name, "")) for name in names),
            "" if trial.value is None else f"{trial.value:.4g}",
            trial.state,
            f"{trial.seconds:.1f}",
        ]
        for trial in result.trials[:SHOWN]
    ]
    return Table(["run", *names, result.measure, "state", "seconds"], rows)


def progress(result: SweepResult, done: Sequence[Trial]) -> Markup:
    """Draw every run's value, and the best so far."""
    rows = sorted(done, key=lambda trial: trial.number)
    values = [trial.value or 0.0 for trial in rows]
    better = max if result.direction == "maximize" else min
    best = [better(values[: i + 1]) for i in range(len(values))]
    with figures.style("sweep"):
        figure = Figure(figsize=(2 * NARROW, 2.6), layout="constrained")
        axes = figure.add_subplot()
        numbers = [trial.number for trial in rows]
        axes.plot(numbers, values, "o", markersize=4, alpha=0.7)
        axes.step(numbers, best, where="post")
        axes.set_xlabel("run")
        axes.set_ylabel(result.measure)
        return figures.to_svg(figure)


def against(result: SweepResult, done: Sequence[Trial], name: str) -> Markup:
    """Draw values against one setting, on a logarithmic axis if it spans decades."""
    settings = [trial.settings.get(name) for trial in done]
    values = [trial.value or 0.0 for trial in done]
    with figures.style(f"sweep {name}"):
        figure = Figure(figsize=(NARROW, 2.4), layout="constrained")
        axes = figure.add_subplot()
        numeric = all(isinstance(v, int | float) and not isinstance(v, bool) for v in settings)
        if numeric:
            places = [float(v) for v in settings]  # type: ignore[arg-type]
            axes.plot(places, values, "o", markersize=4, alpha=0.7)
            if min(places) > 0 and max(places) / min(places) > 30:
                axes.set_xscale("log")
        else:
            words = sorted({str(v) for v in settings})
            axes.plot([words.index(str(v)) for v in settings], values, "o", markersize=4, alpha=0.7)
            axes.set_xticks(range(len(words)), [figures.shortened(word) for word in words])
        axes.set_xlabel(name)
        axes.set_ylabel(result.measure)
        return figures.to_svg(figure)
