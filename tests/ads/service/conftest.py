"""What the tests of the service share."""

from __future__ import annotations

import pytest

from coterie import save_model
from fitted_models import small_model, textless_model


@pytest.fixture(autouse=True)
def no_token(monkeypatch):
    """Remove a token of the environment."""
    monkeypatch.delenv("COTERIE_TOKEN", raising=False)


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Two sound model files, which nobody may change, and the models in them by version."""
    folder = tmp_path_factory.mktemp("models")
    save_model(small_model(), folder / "one.coterie")
    save_model(textless_model(), folder / "other.coterie")
    return folder / "one.coterie", folder / "other.coterie"
