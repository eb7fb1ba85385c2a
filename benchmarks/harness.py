"""What every benchmark is built on: its declaration, its run, and trials that survive interrupts.

A benchmark is one module of this folder with a function ``run(context, **settings) -> Result``, a
line in :data:`BENCHMARKS`, the folders of the package that it ``MEASURES``, and the ``FIGURES``
that pages show of its result. Settings are keyword arguments with defaults; the program sets them
by ``--set name=value``.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.environment import code_digest, set_variables
from benchmarks.results import Result
from coterie.errors import DatasetUnavailableError, InvalidParameterError, TableError
from coterie.runtime.atomic_files import atomic_file

Item = TypeVar("Item")
Found = TypeVar("Found")

#: What benchmarks of the library, of ensembles and of forecasts measure.
CONSENSUS = ("labels", "counts", "search", "relaxation", "consensus")
ENSEMBLES = (*CONSENSUS, "ensembles", "estimators", "multiview")
FORECASTS = tuple(
    f"ads/{folder}"
    for folder in ("logs", "histograms", "curves", "segments", "forecasts", "fitting")
)

#: Every benchmark: its module, and the question it answers.
BENCHMARKS = {
    "features": (
        "features",
        "Clusters of feature tables, K and confidence compared with scikit-learn.",
    ),
    "noise": ("noise", "How much of a planted partition is recovered from noisy and wrong votes?"),
    "regret": ("regret", "How far is each consensus function behind the best one?"),
    "table2": ("paper_table2", "The paper's table 2: consensus functions on eight sets."),
    "table3": ("paper_table3", "The paper's table 3: images described by several views."),
    "paper-ads": ("paper_ads", "The paper's tables 4 to 7: forecasts by feature type."),
    "peers": ("peers", "Accuracy, time, memory and largest n compared with other packages."),
    "speed": ("speed", "Time and memory compared with other ways to the same answer."),
    "first-use": ("first_use", "From the start of a process to the first answer."),
    "relaxation": ("relaxation", "Time of one ADMM step compared with its unavoidable work."),
    "gpu": ("gpu", "Time of one ADMM step on a GPU compared with plain tensor code and the CPU."),
    "divided": ("divided", "What the relaxation loses when it is solved in parts."),
    "growing": (
        "growing",
        "add_partitions of further partitions compared with a fit on all of them.",
    ),
    "scale": ("scale", "Time and memory of the program from ten thousand to ten million rows."),
    "tables": ("tables", "Label tables that stay in DuckDB or Spark, and runs that are killed."),
    "ads": ("ads", "Forecast error of every source of curves on simulated markets."),
    "ads-segments": ("ads_segments", "When do segments help a forecast?"),
    "ads-decisions": ("ads_decisions", "Goals, budgets and portfolios against what then happened."),
    "ads-targets": ("ads_targets", "Which targets? Regret of the value that each rule chooses."),
    "ads-scale": ("ads_scale", "Time, memory and errors from a thousand to a million advertisers."),
    "ads-speed": ("ads_speed", "Time of histograms and similarities compared with plain code."),
    "ads-real": ("ads_real", "Segments and forecasts on real advertising data."),
    "mutation": ("mutation", "Which small changes of the core do its tests notice?"),
    "serve": ("serve", "Throughput and latency of the forecast service, also during reloads."),
    "soak": ("soak", "Memory, open files and failures of the service in an hour of mixed load."),
    "kills": (
        "kills",
        "What outputs are after a command was killed, and whether a rerun succeeds.",
    ),
}


@dataclass(frozen=True)
class Context:
    """How a benchmark is run.

    Attributes
    ----------
    quick : bool
        A small version that takes about a minute.
    data : Path or None
        Folder of the datasets; None means the environment variable ``COTERIE_DATA``.
    keep : Path or None
        Folder where finished trials are kept; a later run continues from them.
    """

    quick: bool = False
    data: Path | None = None
    keep: Path | None = None
    _shows_progress: bool = field(default=True, repr=False)

    def track(self, items: Iterable[Item], title: str, total: int | None = None) -> Iterator[Item]:
        """Yield the items while a progress bar is shown on standard error, if it is a terminal."""
        from rich.console import Console
        from rich.progress import track

        console = Console(stderr=True)
        silent = not (self._shows_progress and console.is_terminal)
        return iter(
            track(items, title, total=total, console=console, transient=True, disable=silent)
        )

    def trials(self, name: str) -> KeptTrials:
        """Return the kept trials of a benchmark; without a folder they are in memory only."""
        return KeptTrials(None if self.keep is None else self.keep / f"{name}.jsonl")

    def missing_datasets(self, names: Iterable[str]) -> dict[str, str]:
        """Return which of the datasets cannot be read, and why."""
        from coterie.datasets import load_views

        if self.data is not None and not self.data.is_dir():
            raise DatasetUnavailableError(
                f"{self.data} is not a folder; name the folder of the datasets with --data"
            )
        missing = {}
        with set_variables(COTERIE_DATA=self.data):
            for name in names:
                try:
                    load_views(name)
                except DatasetUnavailableError as error:
                    missing[name] = " ".join(str(error).split())
        return missing


def data_folder(context: Context) -> str:
    """Return the folder of the datasets."""
    return str(context.data or os.environ.get("COTERIE_DATA", "data"))


class KeptTrials:
    """Outcomes of finished trials, in a file of JSON lines.

    A line is ``{"trial": …, "found": …}``. Every addition replaces the file as a whole, so that
    an interrupt leaves no partial line.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "trials.jsonl"
    >>> KeptTrials(path).add({"n": 100, "method": "l2"}, {"seconds": 0.5})
    {'seconds': 0.5}
    >>> KeptTrials(path).find({"method": "l2", "n": 100})
    {'seconds': 0.5}
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._found = {} if path is None or not path.exists() else _read_trials(path)

    def find(self, trial: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the outcome of a trial, or None if it has not been run."""
        return self._found.get(_key(trial))

    def add(self, trial: Mapping[str, Any], found: Mapping[str, Any]) -> dict[str, Any]:
        """Keep the outcome of a trial, replacing an earlier one; return it."""
        self._found[_key(trial)] = dict(found)
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            lines = (
                f'{{"trial": {key}, "found": {json.dumps(value, ensure_ascii=False)}}}\n'
                for key, value in self._found.items()
            )
            with atomic_file(self._path) as unfinished:
                unfinished.write_text("".join(lines), encoding="utf-8")
        return dict(found)

    def find_or_run(
        self, trial: Mapping[str, Any], run: Callable[[], Mapping[str, Any]]
    ) -> dict[str, Any]:
        """Return the kept outcome of a trial, or run it and keep the outcome."""
        found = self.find(trial)
        return self.add(trial, run()) if found is None else found

    def run_all(
        self,
        trials: Sequence[dict[str, Any]],
        run: Callable[[dict[str, Any]], Mapping[str, Any]],
        jobs: int,
        track: Callable[..., Iterator[Any]],
    ) -> list[dict[str, Any]]:
        """Return the outcomes of trials in their order; those not kept run in worker processes.

        ``track`` shows the progress of what it is given, as :meth:`Context.track` does.
        """
        new = [trial for trial in trials if self.find(trial) is None]
        running = in_parallel(run, [(trial,) for trial in new], jobs)
        for place, found in track(running, total=len(new)):
            self.add(new[place], found)
        return [self._found[_key(trial)] for trial in trials]

    def run_growing(
        self, trials: Iterable[Mapping[str, Any]], run: Callable[[Any], Mapping[str, Any]]
    ) -> Iterator[dict[str, Any]]:
        """Yield trials with their outcomes until one fails; only those that are done are kept.

        ``run`` takes a trial and returns its outcome, with a ``status``.
        """
        for trial in trials:
            found = self.find(trial) or {**trial, **run(trial)}
            yield found
            if found["status"] != "done":
                return
            self.add(trial, found)


def run_benchmark(name: str, context: Context, settings: Sequence[str] = ()) -> Result:
    """Run a benchmark by name.

    Parameters
    ----------
    name : str
        A key of :data:`BENCHMARKS`.
    context : Context
    settings : sequence of str
        ``name=value`` each, the value as a Python literal.
    """
    module = _module(name)
    known = settings_of(name)
    given = {}
    for setting in settings:
        key, _, text = setting.partition("=")
        if key not in known:
            listed = ", ".join(f"{k}={v!r}" for k, v in known.items()) or "none"
            raise InvalidParameterError(
                f"{name} has no setting {key!r}; its settings and defaults: {listed}"
            )
        given[key] = _literal(text)
    result: Result = module.run(context, **given)
    result.environment["code"] = code_digest(module.MEASURES)
    return result


def settings_of(name: str) -> dict[str, Any]:
    """Return the settings of a benchmark with their defaults."""
    parameters = list(inspect.signature(_module(name).run).parameters.values())[1:]
    return {parameter.name: parameter.default for parameter in parameters}


def in_parallel(
    function: Callable[..., Found], tasks: Sequence[tuple[Any, ...]], jobs: int
) -> Iterator[tuple[int, Found]]:
    """Call a function with every tuple of arguments, in worker processes.

    Yield the place of a task and its result as the tasks finish; close the iterator to stop them.
    """
    import joblib

    parallel = joblib.Parallel(jobs, return_as="generator_unordered", batch_size=1)
    calls = (joblib.delayed(_call)(function, place, task) for place, task in enumerate(tasks))
    with contextlib.closing(parallel(calls)) as found:
        yield from found


def _call(function: Callable[..., Found], place: int, task: tuple[Any, ...]) -> tuple[int, Found]:
    return place, function(*task)


def error_line(text: str) -> str:
    r"""Return the last line of a program's output that names an error, or else its last line.

    >>> error_line("Traceback ...\nERROR: no wheel for x\nhint: see above\n")
    'ERROR: no wheel for x'
    """
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR:") or "Error: " in line]
    return (errors or lines or [""])[-1]


def _module(name: str) -> Any:
    if name not in BENCHMARKS:
        raise InvalidParameterError(f"no benchmark {name!r}; there are {', '.join(BENCHMARKS)}")
    return import_module(f"benchmarks.{BENCHMARKS[name][0]}")


def _literal(text: str) -> Any:
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _read_trials(path: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            kept = json.loads(line)
            found[_key(kept["trial"])] = dict(kept["found"])
        except (ValueError, TypeError, KeyError) as error:
            raise TableError(
                f"{path}, line {number} is not a kept trial ({error!r}); remove the file"
            ) from error
    return found


def _key(trial: Mapping[str, Any]) -> str:
    return json.dumps(trial, sort_keys=True, ensure_ascii=False)
