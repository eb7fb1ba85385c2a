"""Fixtures: a small simulated market, results of commands on it, and logs with faults."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from coterie.ads.logs.simulation.simulated_logs import simulate_logs
from coterie.ads.logs.simulation.simulated_traits import MarketSettings
from coterie.cli.program import app

MICROS = 1_000_000


@pytest.fixture(scope="session")
def market(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Simulate 48 advertisers in 4 segments on 4 days; tests must not write to it."""
    folder = tmp_path_factory.mktemp("simulated") / "market"
    settings = MarketSettings(advertisers=48, segments=4, days=4, bids_per_day=15, seed=1)
    return simulate_logs(settings, folder).folder


@pytest.fixture(scope="session")
def segmented(market: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the facts of ``ads segment --json`` on the market, and the written files."""
    folder = tmp_path_factory.mktemp("segmented")
    model, members = folder / "market.coterie", folder / "members.parquet"
    facts = _facts("segment", market, "-k", "3,4", "-o", model, "--members", members)
    return facts | {"model_file": model, "members_file": members}


@pytest.fixture(scope="session")
def evaluated(market: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the facts of ``ads evaluate --json`` on the market, and the written file."""
    file = tmp_path_factory.mktemp("evaluated") / "evaluation.json"
    return _facts("evaluate", market, "-k", "3,4", "-o", file) | {"file": file}


@pytest.fixture
def write_log(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that writes a log, with given columns, and its texts."""
    return lambda **how: _write_log(tmp_path / "log", **how)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function after whose call every write fails with a full disk."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    write_table = pq.ParquetWriter.write_table

    def full_for_files(writer: Any, *given: Any, **options: Any) -> None:
        # a model packs its days in memory
        in_memory = isinstance(writer.where, pa.BufferOutputStream)
        (write_table if in_memory else full)(writer, *given, **options)

    def fill() -> None:
        monkeypatch.setattr(Path, "write_text", full)
        monkeypatch.setattr(pq.ParquetWriter, "write_table", full_for_files)
        monkeypatch.setattr("zipfile.ZipFile.writestr", full)

    return fill


@pytest.fixture
def untouched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail the test if a log is opened."""
    monkeypatch.setattr(
        "coterie.ads.logs.bid_logs.open_logs", lambda *_, **__: pytest.fail("the log was opened")
    )


def _facts(command: str, *arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["ads", command, *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.stderr
    facts: dict[str, Any] = json.loads(result.stdout)
    return facts


def _write_log(
    folder: Path,
    *,
    advertisers: Sequence[str] = tuple(f"shop-{i}" for i in range(12)),
    days: int = 3,
    bids: int = 30,
    texts: bool = True,
    **columns: Any,
) -> Path:
    """Write a second-price log in which every second advertiser pays twice the price."""
    rng = np.random.default_rng(0)
    n = len(advertisers) * days * bids
    who = np.repeat(np.arange(len(advertisers)), days * bids)
    bid = rng.integers(1 * MICROS, 4 * MICROS, n)
    minimum = rng.integers(1 * MICROS, 3 * MICROS, n) * (1 + who % 2)
    won = bid >= minimum
    log = {
        "advertiser_id": [advertisers[i] for i in who],
        "day": [f"2026-03-{2 + d:02}" for d in np.tile(np.arange(days), n // days)],
        "bid_micros": bid,
        "won": won,
        "price_micros": pa.array(minimum, mask=~won),
        "currency": ["EUR"] * n,
        **columns,
    }
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(log), folder / "bids.parquet")
    if texts:
        kinds = [("shoes", "jacket"), ("flights", "hotel")]
        described = [f"{' '.join(kinds[i % 2])} number {i}" for i in range(len(advertisers))]
        table = pa.table({"advertiser_id": list(advertisers), "description": described})
        pq.write_table(table, folder / "advertisers.parquet")
    return folder
