"""Tests of ``coterie warm``: afterwards nothing that users run is compiled, and nothing written."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from coterie import save_model
from coterie.runtime import compiled_code
from fitted_models import first_price_model, minimum_model, small_model, textless_model
from plain_users import run_python, set_writable, shared_folder
from running_service import running_service

PROGRAM = [sys.executable, "-m", "coterie"]
MODELS = (small_model, first_price_model, minimum_model, textless_model)

# runs commands in one process, and prints how many kernels were compiled and loaded
COMMANDS = """
import json, sys
from coterie.command_line.program import app
for command in json.loads(sys.argv[1]):
    app([*command, "--quiet"], standalone_mode=False)
from coterie.runtime.compiled_code import compiled_functions
print(*compiled_functions()[:2])
"""


@pytest.fixture(scope="module")
def warmed() -> Iterator[tuple[Path, dict[str, Any]]]:
    """Warm a new folder, and return it and what the program printed."""
    with shared_folder() as shared:
        folder = shared / "cache"
        yield folder, warm(folder)


def warm(folder: Path) -> dict[str, Any]:
    """Run ``coterie warm`` and return what it says."""
    done = subprocess.run(
        [*PROGRAM, "warm", "--json"],
        env=os.environ | {"NUMBA_CACHE_DIR": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return json.loads(done.stdout)


def compiled_in(folder: Path) -> set[str]:
    """Return the files of compiled code."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*.nbc")}


def test_it_compiles_once(warmed):
    """It says where the code is and how much was compiled; the next time all of it is loaded."""
    folder, first = warmed
    assert first["folder"] == str(folder)
    assert first["loaded"] == 0 and first["compiled"] == len(compiled_in(folder)) > 50
    before = compiled_in(folder)
    again = warm(folder)
    assert again["compiled"] == 0 < again["loaded"]
    assert compiled_in(folder) == before


def test_commands_compile_nothing_afterwards(warmed, labels_csv):
    """Neither a consensus nor a forecast is compiled by a user who may only read the code."""
    folder, _ = warmed
    table = folder.parent / "labels.csv"
    table.write_bytes(labels_csv.read_bytes())
    commands = [
        ["consensus", str(table), "--id", "name", "-k", "3"],
        ["consensus", str(table), "--id", "name"],
    ]
    for number, made in enumerate(MODELS):
        model = folder.parent / f"{number}.coterie"
        save_model(made(), model)
        known = ["ads", "forecast", str(model), "--bid", "1,2,900"]
        commands += [
            [*known, "--advertiser", str(made().advertisers_[3])],
            [*known, "--advertiser", str(made().advertisers_[3]), "--days", "5"],
            [*known, "--text", "beach hotel", "--supply", "1000"],
        ]
    set_writable(folder, False)
    try:
        done = run_python(COMMANDS, json.dumps(commands), NUMBA_CACHE_DIR=str(folder))
    finally:
        set_writable(folder, True)
    compiled, loaded = done.stdout.split()[-2:]
    assert compiled == "0" and int(loaded) > 10


@pytest.mark.parametrize("made", [first_price_model, textless_model])
def test_the_service_compiles_nothing_afterwards(made, warmed, tmp_path):
    """Starting it and asking it all kinds of questions leaves the compiled code as it is."""
    folder, _ = warmed
    before = compiled_in(folder)
    name = str(made().advertisers_[3])
    questions = [
        {"advertiser": name, "bid": 2},
        {"advertiser": name, "bid": [0.001, 2.5, 1e6], "level": 0.5},
        {"advertiser": name, "bid": 2.0, "days": 9},
        {"advertiser": name, "bid": 2.0, "supply": 1000},
        {"text": "passport tour", "bid": [0.5, 2.0], "supply": 1e6},
        {"text": "", "bid": 3, "supply": 10},
    ]
    asked = {"NUMBA_CACHE_DIR": str(folder)}
    with (
        running_service(made(), tmp_path, environment=asked) as service,
        service.client() as client,
    ):
        for body in (*questions, questions):
            assert client.post("/v1/forecast", json=body).status_code == 200, body
        for path in ("/v1/model", "/v1/segments", "/v1/advertisers", f"/v1/advertisers/{name}"):
            assert client.get(path).status_code == 200, path
    assert compiled_in(folder) == before


@pytest.mark.parametrize(
    ("problem", "private", "message"),
    [
        ("compiled code could not be saved in /x: no space", "", "could not be saved in /x"),
        ("", "/tmp/private", "/x is read-only and lacks compiled code"),
    ],
)
def test_code_that_is_not_kept_is_an_error(problem, private, message, run, monkeypatch):
    """If the code is gone after the command, the command has failed."""
    for step in ("run_consensus", "run_forecasts"):
        monkeypatch.setattr(f"coterie.command_line.warm.{step}", lambda _: None)
    found = compiled_code.CompiledFunctions(3, 0, ["/x/counts_1", "/x/labels_2"], problem)
    monkeypatch.setattr(compiled_code, "compiled_functions", lambda: found)
    monkeypatch.setattr(compiled_code, "prepare_cache", lambda: private)
    result = run("warm")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("error: ") and message in result.stderr


def test_the_summary_names_the_folder(run, monkeypatch):
    """People read how many functions were compiled, and where they are."""
    for step in ("run_consensus", "run_forecasts"):
        monkeypatch.setattr(f"coterie.command_line.warm.{step}", lambda _: None)
    found = compiled_code.CompiledFunctions(1, 25, ["/x/counts_1", "/x/labels_2"], "")
    monkeypatch.setattr(compiled_code, "compiled_functions", lambda: found)
    printed = " ".join(run("warm").stdout.split())
    assert "Compiled 1 function in 0" in printed
    assert "25 functions had been compiled before. The compiled code is in /x" in printed
