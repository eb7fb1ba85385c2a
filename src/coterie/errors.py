"""What can go wrong, on one screen.

::

    CoterieError
    ├── InvalidLabelsError     a label matrix cannot be used        (also a ValueError)
    ├── InvalidParameterError  a setting cannot be used             (also a ValueError)
    ├── TooManyPointsError     a method's memory or time would run away (also a ValueError)
    ├── TableError             a table on disk cannot be read       (also a ValueError)
    ├── OutputError            a result cannot be written           (also an OSError)
    ├── DatasetUnavailableError  a dataset is nowhere to be had     (also a LookupError)
    ├── ModelFileError         a model file is not ours or damaged  (also a ValueError)
    ├── MissingExtraError      an optional package is not installed (also an ImportError)
    └── ServiceError           a service cannot start or did not answer (also a RuntimeError)

    CoterieWarning (a UserWarning)
    ├── LabelWarning           the labels are usable but look odd
    ├── DissentWarning         no camp of partitions has a majority
    ├── MemoryFallbackWarning  a method was replaced because it would not fit in memory
    └── DeviceFallbackWarning  a GPU was asked for and cannot be used

Every message says what is wrong, where, and what to do. Failure to converge is
scikit-learn's :class:`~sklearn.exceptions.ConvergenceWarning`.
"""

__all__ = [
    "CoterieError",
    "CoterieWarning",
    "DatasetUnavailableError",
    "DeviceFallbackWarning",
    "DissentWarning",
    "InvalidLabelsError",
    "InvalidParameterError",
    "LabelWarning",
    "MemoryFallbackWarning",
    "MissingExtraError",
    "ModelFileError",
    "OutputError",
    "ServiceError",
    "TableError",
    "TooManyPointsError",
]


class CoterieError(Exception):
    """Root of every error raised on purpose."""


class InvalidLabelsError(CoterieError, ValueError):
    """A label matrix cannot be used; the message names the row and the column."""


class InvalidParameterError(CoterieError, ValueError):
    """A setting cannot be used; the message names it and what it may be."""


class TooManyPointsError(CoterieError, ValueError):
    """A method would need memory or time far beyond reason; the message names its limit."""


class TableError(CoterieError, ValueError):
    """A table on disk cannot be read; the message names the file and the place in it."""


class OutputError(CoterieError, OSError):
    """A result cannot be written; nothing was left behind."""


class DatasetUnavailableError(CoterieError, LookupError):
    """A dataset is neither bundled, nor cached, nor to be downloaded."""


class ModelFileError(CoterieError, ValueError):
    """A model file was not written by coterie, is of another version, or is damaged."""


class MissingExtraError(CoterieError, ImportError):
    """An optional package is not installed; the message names the extra that brings it."""


class ServiceError(CoterieError, RuntimeError):
    """A service cannot start, did not answer, or refused; the message says which and why.

    ``status`` is that of its answer, ``request_id`` what its log calls the request; both are None
    where there was no answer.
    """

    def __init__(
        self, message: str = "", *, status: int | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class CoterieWarning(UserWarning):
    """Root of every warning."""


class LabelWarning(CoterieWarning):
    """The labels are usable but look odd."""


class DissentWarning(CoterieWarning):
    """No camp of partitions has a majority, so none was set aside."""


class MemoryFallbackWarning(CoterieWarning):
    """A method was replaced by a lighter one because it would not fit in memory."""


class DeviceFallbackWarning(CoterieWarning):
    """A GPU was asked for and cannot be used: what the CPU would do takes its place."""
