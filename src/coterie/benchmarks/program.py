"""The commands ``coterie bench …``."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coterie.errors import MissingExtraError, OutputError
from coterie.whole_files import check_writable, whole_file

if TYPE_CHECKING:
    from coterie.benchmarks.result_tables import ResultTable

__all__ = ["app"]

app = typer.Typer(
    name="bench",
    help="Measurements anybody can repeat.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)

Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", help="Folder for the report; made if it is not there."),
]
Draws = Annotated[
    int | None, typer.Option("--draws", min=1, help="Draws of each cell: 20, with --quick 2.")
]
Keep = Annotated[
    Path | None,
    typer.Option(
        "--keep", metavar="FOLDER", help="Keep each draw here, and go on from those kept."
    ),
]
Data = Annotated[
    Path | None,
    typer.Option("--data", metavar="FOLDER", envvar="COTERIE_DATA", help="Where the datasets are."),
]
Jobs = Annotated[
    int | None, typer.Option("--jobs", "-j", min=1, help="Cells at a time: one a core.")
]
Patience = Annotated[
    float,
    typer.Option(
        min=1, help="Processor seconds after which a method gets no further draws of a cell."
    ),
]


@app.command()
def noise(
    as_json: Json = False,
    draws: Annotated[
        int | None, typer.Option(min=1, help="Draws of each cell: 5, with --quick 2.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="The 11 core cells only.")] = False,
    output: Output = None,
) -> None:
    """Accuracy on planted partitions with noisy and wrong votes.

    Example: coterie bench noise --quick -o noise-report
    """
    _prepare_folder(output, ("noise.json", "noise.md", "noise.png"))
    if output is not None:
        _require_matplotlib()
    from coterie.benchmarks import noise_report as report
    from coterie.benchmarks.environment import environment
    from coterie.benchmarks.noise import CORE_CELLS, MORE_CELLS, run_noise

    cells = CORE_CELLS if quick else CORE_CELLS + MORE_CELLS
    n_draws = draws or (2 if quick else 5)
    with _progress("planting, spoiling, recovering", len(cells) * n_draws) as advance:
        results = run_noise(cells, n_draws, after_draw=lambda: advance(None))
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        picture, page = report.as_picture(results), report.as_page(results, described)
        _write(
            {
                output / "noise.json": _text(_dumps(everything)),
                output / "noise.md": _text(page),
                output / "noise.png": partial(picture.savefig, format="png", dpi=150),
            }
        )
    lines = [*report.summary_lines(results), *_as_notes(report.notes(results))]
    _show(as_json, everything, [report.as_table(results)], lines, output)


@app.command()
def speed(
    as_json: Json = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the rows or fewer; some minutes.")
    ] = False,
    repeats: Annotated[
        int, typer.Option(min=1, help="Most runs of each contender; the median counts.")
    ] = 3,
    output: Output = None,
) -> None:
    """Time and peak memory, side by side with other ways to the same answer.

    Run it on a machine that does nothing else. Example: coterie bench speed -o speed-report
    """
    _prepare_folder(output, ("speed.json", "speed.md"))
    from coterie.benchmarks import speed_report as report
    from coterie.benchmarks.environment import environment
    from coterie.benchmarks.speed import FULL, QUICK, run_speed

    with _progress("measuring", None) as advance:
        results = run_speed(QUICK if quick else FULL, repeats, before_step=advance)
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        page = report.as_page(results, described)
        _write({output / "speed.json": _text(_dumps(everything)), output / "speed.md": _text(page)})
    lines = [report.METHOD, *_as_notes(report.notes(results))]
    _show(as_json, everything, report.as_tables(results), lines, output)


@app.command()
def ads(
    as_json: Json = False,
    draws: Annotated[int, typer.Option(min=1, help="Draws of each cell.")] = 3,
    quick: Annotated[bool, typer.Option("--quick", help="One cell, one draw.")] = False,
    keep: Keep = None,
    output: Output = None,
) -> None:
    """Forecast error over a grid of simulated markets, by every source of curves.

    Example: coterie bench ads --keep draws -o ads-report
    """
    _prepare_folder(output, ("ads.json", "ads.md", "ads.png"))
    if output is not None:
        _require_matplotlib()
    from coterie.benchmarks import ads_grid_report as report
    from coterie.benchmarks.ads_grid import FULL_GRID, QUICK_GRID, run_grid
    from coterie.benchmarks.environment import environment

    cells, n_draws = (QUICK_GRID, 1) if quick else (FULL_GRID, draws)
    with _progress("simulating and forecasting", len(cells) * n_draws) as advance:
        results = run_grid(cells, n_draws, keep=keep, after_draw=lambda: advance(None))
    described = environment()
    everything = report.as_json(cells, results, described)
    if output is not None:
        picture, page = report.as_picture(cells, results), report.as_page(cells, results, described)
        _write(
            {
                output / "ads.json": _text(_dumps(everything)),
                output / "ads.md": _text(page),
                output / "ads.png": partial(picture.savefig, format="png", dpi=150),
            }
        )
    tables = report.as_tables(cells, results)
    _show(as_json, everything, tables, report.summary_lines(cells, results), output)


@app.command("ads-speed")
def ads_speed(
    as_json: Json = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A tenth of the rows and advertisers.")
    ] = False,
    output: Output = None,
) -> None:
    """Time of histograms beside hand-written SQL, and of all pairs of curves beside SciPy.

    Run it on a machine that does nothing else. Example: coterie bench ads-speed -o report
    """
    _prepare_folder(output, ("ads_speed.json", "ads_speed.md"))
    from coterie.benchmarks import ads_speed_report as report
    from coterie.benchmarks.ads_engine import compare_engine
    from coterie.benchmarks.ads_similarity import compare_similarity
    from coterie.benchmarks.environment import environment

    share = 10 if quick else 1
    with _progress("counting a large log", 2) as advance:
        engine = compare_engine(20_000_000 // share)
        advance("comparing all pairs of curves")
        similarity = compare_similarity(20_000 // share)
    described = environment()
    found = {"engine": engine, "similarity": similarity, "environment": described}
    if output is not None:
        page = report.as_page(found, described)
        _write(
            {
                output / "ads_speed.json": _text(_dumps(found)),
                output / "ads_speed.md": _text(page),
            }
        )
    _show(as_json, found, report.as_tables(found), report.summary_lines(found), output)


@app.command("ads-real")
def ads_real(
    as_json: Json = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer draws; some seconds.")] = False,
    data: Data = None,
    output: Output = None,
) -> None:
    """Real advertising data: censored auctions, orders of a publisher, texts of political ads.

    Example: coterie bench ads-real --data FOLDER -o ads-real-report
    """
    from coterie.benchmarks import ads_real_report as report
    from coterie.benchmarks.ads_real import FILES, run_real
    from coterie.benchmarks.ads_real_tables import as_tables

    _prepare_folder(output, FILES)
    with _progress("measuring", None) as advance:
        everything = run_real(data, output, quick=quick, before_step=advance)
    _show(as_json, everything, as_tables(everything), report.summary_lines(everything), output)


@app.command()
def table2(
    as_json: Json = False,
    draws: Draws = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sets, one recipe, 2 draws; two minutes.")
    ] = False,
    all_methods: Annotated[
        bool, typer.Option("--all-methods", help="Every consensus function, not only the paper's.")
    ] = False,
    keep: Keep = None,
    data: Data = None,
    jobs: Jobs = None,
    patience: Patience = 60.0,
    output: Output = None,
) -> None:
    """The paper's table 2: accuracy of consensus functions on eight sets, several recipes.

    Example: coterie bench table2 --data FOLDER --keep draws -o table2-report
    """
    from coterie.benchmarks.paper_tables import run_table2

    run = partial(run_table2, all_methods=all_methods)
    _paper_table("table2", run, as_json, draws, quick, keep, data, jobs, patience, output)


@app.command()
def table3(
    as_json: Json = False,
    draws: Draws = None,
    quick: Annotated[bool, typer.Option("--quick", help="The small set, 2 draws.")] = False,
    keep: Keep = None,
    data: Data = None,
    jobs: Jobs = None,
    patience: Patience = 60.0,
    output: Output = None,
) -> None:
    """The paper's table 3: accuracy on images seen in several views.

    Example: coterie bench table3 --data FOLDER --keep draws -o table3-report
    """
    from coterie.benchmarks.paper_tables import run_table3

    _paper_table("table3", run_table3, as_json, draws, quick, keep, data, jobs, patience, output)


def _paper_table(
    name: str,
    run: Callable[..., Any],
    as_json: bool,
    draws: int | None,
    quick: bool,
    keep: Path | None,
    data: Path | None,
    jobs: int | None,
    patience: float,
    output: Path | None,
) -> None:
    """Run one of the paper's tables, and show and write what came out."""
    _prepare_folder(output, [f"{name}.{suffix}" for suffix in ("json", "md", "html", "png")])
    _prepare_folder(keep, ())
    if output is not None:
        _require_matplotlib()
    from coterie.benchmarks import paper_tables_page as page
    from coterie.benchmarks import paper_tables_report as report
    from coterie.benchmarks.environment import environment
    from coterie.benchmarks.paper_tables import RunSettings

    settings = RunSettings(draws or (2 if quick else 20), keep, data, patience, jobs)
    with _progress("clustering", None) as advance:
        results = run(settings, quick=quick, after_cell=advance)
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        picture = page.as_picture(results)
        _write(
            {
                output / f"{name}.json": _text(_dumps(everything)),
                output / f"{name}.md": _text(page.as_page(results, described)),
                output / f"{name}.html": _text(page.as_html(results, described, picture)),
                output / f"{name}.png": partial(picture.savefig, format="png", dpi=150),
            }
        )
    tables = [report.printed_table(results.table), *report.as_tables(results)]
    lines = [*report.summary_lines(results), *_as_notes(report.notes(results))]
    _show(as_json, everything, tables, lines, output)


@app.command()
def peers(
    as_json: Json = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="At most 1,000 points and 3 s a trial; two minutes.")
    ] = False,
    environments: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="The peers' environments, made if not there."),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help="Keep each trial here, and go on from those kept."),
    ] = None,
    output: Output = None,
) -> None:
    """Accuracy, time, memory and largest n, beside the packages one would pick instead.

    Each is installed by pip into an environment of its own, in the user's cache unless told
    otherwise. Run it on a machine that does nothing else.
    Example: coterie bench peers --keep trials -o peers-report
    """
    _prepare_folder(output, ("peers.json", "peers.md", "peers.png"))
    if output is not None:
        _require_matplotlib()
    from coterie.benchmarks import peers_report as report
    from coterie.benchmarks.environment import environment
    from coterie.benchmarks.peers import FULL, QUICK, run_peers

    effort = QUICK if quick else FULL
    with _progress("comparing", None) as advance:
        results = run_peers(effort, environments=environments, keep=keep, before_step=advance)
    described = environment()
    everything = report.as_json(results, described)
    if output is not None:
        picture, page = report.as_picture(results), report.as_page(results, described)
        _write(
            {
                output / "peers.json": _text(_dumps(everything)),
                output / "peers.md": _text(page),
                output / "peers.png": partial(picture.savefig, format="png", dpi=150),
            }
        )
    lines = [report.METHOD, *report.summary_lines(results), *_as_notes(report.notes(results))]
    _show(as_json, everything, report.as_tables(results), lines, output)


def _prepare_folder(folder: Path | None, names: Sequence[str]) -> None:
    """Make the folder, and refuse it now if the files could not be written into it later."""
    if folder is None:
        return
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"cannot make the folder {folder}: {error.strerror}") from error
    for name in names:
        check_writable(folder / name)


def _require_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401 (whether it is there)
    except ImportError as error:
        raise MissingExtraError(
            "the report has a picture, which needs matplotlib: pip install 'coterie[plots]', "
            "or leave --output away"
        ) from error


@contextlib.contextmanager
def _progress(title: str, total: int | None) -> Iterator[Callable[[str | None], None]]:
    """A bar on standard error, if that is a terminal; call what is given at each step.

    With a text, the text is shown in place of the title.
    """
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(title, total=total)

        def advance(now: str | None) -> None:
            bar.update(task, advance=1, description=title if now is None else now)

        yield advance


def _show(
    as_json: bool,
    everything: dict[str, Any],
    tables: Sequence[ResultTable],
    lines: Sequence[str],
    output: Path | None,
) -> None:
    """The results on standard output: JSON and nothing else, or tables and sentences."""
    if as_json:
        typer.echo(_dumps(everything), nl=False)
        return
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    if not console.is_terminal:
        console.width = 160
    for table in tables:
        console.print(table.drawn())
    for line in lines:
        console.print(line)
    if output is not None:
        console.print(f"Report in {output}")


def _as_notes(notes: Sequence[str]) -> list[str]:
    return [f"Note: {note}" for note in notes]


def _write(steps: Mapping[Path, Callable[[Path], object]]) -> None:
    """Write each file whole; an interrupt tells, as its arguments, which are complete."""
    written: list[Path] = []
    try:
        for path, write in steps.items():
            with whole_file(path) as unfinished:
                write(unfinished)
            written.append(path)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*written) from None


def _text(text: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(text, encoding="utf-8")


def _dumps(everything: dict[str, Any]) -> str:
    return json.dumps(everything, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
