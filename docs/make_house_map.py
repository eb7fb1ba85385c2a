"""Draw docs/images/house.png: the folders of the package and which of them import which.

Layers come from the import contracts in pyproject.toml, arrows from the imports in the code, and
descriptions from the tables in CONTRIBUTING.md.
"""

from __future__ import annotations

import ast
import math
import re
import tomllib
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.patches import FancyArrowPatch, FancyBboxPatch
from matplotlib.path import Path as MplPath
from PIL import Image

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "house.png"
BOX_WIDTH, BOX_HEIGHT, ROW_STEP, COLUMN_STEP = 3.1, 0.92, 1.38, 3.4
COLOURS = {"coterie": ("#E8F1F8", "#0072B2"), "coterie.ads": ("#FDF2DC", "#B87800")}

CENTRED = {"ha": "center", "va": "center"}

Edges = set[tuple[str, str]]
Point = tuple[float, float]
Places = dict[str, Point]


def main() -> None:
    """Draw the whole package, and below it its advertising folder."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    layers = {c["containers"][0]: c["layers"][::-1] for c in contracts["contracts"]}
    heights = [len(layers[container]) * ROW_STEP + 0.6 for container in COLOURS]
    figure, axes = plt.subplots(2, 1, figsize=(7, 0.585 * sum(heights)), height_ratios=heights)
    figure.subplots_adjust(0.005, 0.005, 0.995, 0.98, hspace=0.03)
    for ax, container, height in zip(axes, COLOURS, heights, strict=True):
        rows = [layer.split(" | ") for layer in layers[container]]
        places = {
            name: ((i - (len(row) - 1) / 2) * COLUMN_STEP, -ROW_STEP * y)
            for y, row in enumerate(rows)
            for i, name in enumerate(row)
        }
        _draw(ax, container, places)
        ax.set(xlim=(-5.95, 5.95), ylim=(1.2 - height, 0.6), aspect="equal")
    figure.savefig(PICTURE, dpi=110, facecolor="white")
    # a palette looks the same and needs less space
    image = Image.open(PICTURE).convert("RGB").quantize(64, dither=Image.Dither.NONE)
    image.save(PICTURE, optimize=True)


def _draw(ax: plt.Axes, container: str, places: Places) -> None:
    """Draw one container, its lowest layer at the top."""
    fill, line = COLOURS[container]
    folder = container.replace(".", "/")
    described = _descriptions()
    _draw_arrows(ax, _reduced(_imports(container, set(places))), places, line)
    for name, (x, y) in places.items():
        corner = (x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2)
        shape = {"boxstyle": "round,pad=0,rounding_size=0.12", "fc": fill, "ec": line, "lw": 1.3}
        ax.add_patch(FancyBboxPatch(corner, BOX_WIDTH, BOX_HEIGHT, **shape, zorder=3))
        ax.text(x, y + 0.24, name, **CENTRED, weight="bold", size=12, zorder=4)
        text = _two_lines(described[f"{folder}/{name}"])
        ax.text(x, y - 0.16, text, **CENTRED, size=8, color="0.25", linespacing=1.1, zorder=4)
    ax.set_title(f"src/{folder}", size=13, family="monospace", color=line)
    ax.set_axis_off()


def _draw_arrows(ax: plt.Axes, edges: Edges, places: Places, colour: str) -> None:
    """Draw straight arrows between neighbouring rows, and the others in lanes beside the boxes."""
    taken: list[tuple[float, float, float]] = []
    for a, b in sorted(edges, key=lambda edge: places[edge[1]][1] - places[edge[0]][1]):
        start, end = places[a], places[b]
        if _is_free(start, end, places):
            corners = [(start[0], start[1] + BOX_HEIGHT / 2), (end[0], end[1] - BOX_HEIGHT / 2)]
        else:
            corners = _around(start, end, places, taken)
        style = {"arrowstyle": "-|>,head_length=6,head_width=3", "color": colour}
        ax.add_patch(FancyArrowPatch(path=_rounded(corners), **style, lw=1.3, zorder=2))


def _is_free(start: Point, end: Point, places: Places) -> bool:
    """Tell whether a straight arrow from one box up to another meets no box."""
    between = [x for x, y in places.values() if start[1] < y < end[1]]
    return not between or (
        start[0] == end[0] and all(abs(x - start[0]) > BOX_WIDTH / 2 for x in between)
    )


def _around(
    start: Point, end: Point, places: Places, taken: list[tuple[float, float, float]]
) -> list[Point]:
    """Return the corners of an arrow that passes the boxes in a free lane on one side.

    ``taken`` holds the lanes in use as (x, lowest y, highest y); the new lane is added. Arrows
    leave a side above its middle and enter below it, so that they do not meet.
    """
    side = 1 if start[0] + end[0] > 0 else -1
    near = [side * x for x, y in places.values() if start[1] <= y <= end[1]]
    lane = max(near) + BOX_WIDTH / 2 + 0.3
    while any(
        abs(side * x - lane) < 0.2 and low < end[1] and start[1] < high for x, low, high in taken
    ):
        lane += 0.25
    taken.append((side * lane, start[1], end[1]))
    is_outermost = all(side * (x - start[0]) <= 0 for x, y in places.values() if y == start[1])
    if is_outermost:
        first = [(start[0] + side * BOX_WIDTH / 2, start[1] + 0.18)]
    else:
        x, channel = start[0] + side * BOX_WIDTH / 4, start[1] + ROW_STEP / 2
        first = [(x, start[1] + BOX_HEIGHT / 2), (x, channel)]
    return [
        *first,
        (side * lane, first[-1][1]),
        (side * lane, end[1] - 0.18),
        (end[0] + side * BOX_WIDTH / 2, end[1] - 0.18),
    ]


def _rounded(corners: list[Point], radius: float = 0.22) -> MplPath:
    """Return a path through the corners, each of which is rounded."""
    points, codes = [corners[0]], [MplPath.MOVETO]
    for before, corner, after in zip(corners, corners[1:], corners[2:], strict=False):
        points += [_towards(corner, before, radius), corner, _towards(corner, after, radius)]
        codes += [MplPath.LINETO, MplPath.CURVE3, MplPath.CURVE3]
    return MplPath([*points, corners[-1]], [*codes, MplPath.LINETO])


def _towards(start: Point, end: Point, distance: float) -> Point:
    step = distance / math.dist(start, end)
    return start[0] + step * (end[0] - start[0]), start[1] + step * (end[1] - start[1])


def _imports(container: str, names: set[str]) -> Edges:
    """Return the pairs (importer, imported) of members of the container."""
    folder = ROOT / "src" / container.replace(".", "/")
    edges = set()
    for name in names:
        path = folder / name
        for module in path.rglob("*.py") if path.is_dir() else [path.with_suffix(".py")]:
            for imported in _imported_modules(module):
                first = imported.removeprefix(f"{container}.").split(".")[0]
                if imported.startswith(f"{container}.") and first in names - {name}:
                    edges.add((name, first))
    return edges


def _imported_modules(module: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _reduced(edges: Edges) -> Edges:
    """Return the transitive reduction: edges that no longer path replaces."""
    reach = set(edges)
    names = {name for edge in edges for name in edge}
    for middle, start, end in product(names, repeat=3):
        if (start, middle) in reach and (middle, end) in reach:
            reach.add((start, end))
    return {(a, b) for a, b in edges if not any((a, c) in reach and (c, b) in reach for c in names)}


def _descriptions() -> dict[str, str]:
    """Return the rows of the tables in CONTRIBUTING.md, by path below src."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    tables = re.findall(r"^\| folder of `src/(\S+)` \|.*\n.*\n((?:\|.*\n)+)", text, re.MULTILINE)
    return {
        f"{folder}/{name.removesuffix('.py').removesuffix('/')}": about.replace("`", "")
        for folder, rows in tables
        for name, about in re.findall(r"^\| `(\S+)` \| (.*) \|$", rows, re.MULTILINE)
    }


def _two_lines(text: str) -> str:
    """Break a text of more than 28 characters near its middle."""
    if len(text) <= 28:
        return text
    blanks = [i for i, letter in enumerate(text) if letter == " "]
    middle = min(blanks, key=lambda i: abs(i - len(text) / 2))
    return f"{text[:middle]}\n{text[middle + 1 :]}"


if __name__ == "__main__":
    main()
