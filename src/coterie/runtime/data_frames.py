"""pandas, which is needed only for results as data frames."""

from __future__ import annotations

from typing import Any

from coterie.errors import MissingExtraError

__all__ = ["import_pandas"]


def import_pandas() -> Any:
    """Return the module pandas, or say how to install it."""
    try:
        import pandas
    except ImportError as error:
        raise MissingExtraError(
            "data frames need pandas: pip install 'coterie[frames]', or use the attributes of the "
            "estimator"
        ) from error
    return pandas
