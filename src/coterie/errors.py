"""Exceptions and warnings of coterie.

::

    CoterieError
    ├── InvalidLabelsError       a label matrix cannot be used            (also a ValueError)
    ├── InvalidParameterError    a parameter value cannot be used         (also a ValueError)
    ├── TooManyPointsError       a method needs too much memory or time   (also a ValueError)
    ├── TableError               a table on disk cannot be read           (also a ValueError)
    ├── OutputError              a result cannot be written               (also an OSError)
    ├── DatasetUnavailableError  a dataset cannot be loaded               (also a LookupError)
    ├── ModelFileError           a model file is foreign or damaged       (also a ValueError)
    ├── MissingExtraError        an optional package is not installed     (also an ImportError)
    └── ServiceError             a service cannot start or did not answer (also a RuntimeError)

    CoterieWarning (a UserWarning)
    ├── LabelWarning             the labels can be used but look wrong
    ├── DissentWarning           no group of partitions has a majority
    ├── WeakEvidenceWarning      the number of clusters could be another one
    ├── MemoryFallbackWarning    a method that needs less memory was used
    └── DeviceFallbackWarning    the CPU was used instead of the GPU

Every message says what is wrong, where, and what to do. Failure to converge is
scikit-learn's :class:`~sklearn.exceptions.ConvergenceWarning`.
"""


class CoterieError(Exception):
    """Base class of all errors of coterie."""


class InvalidLabelsError(CoterieError, ValueError):
    """A label matrix cannot be used; the message names the row and the column."""


class InvalidParameterError(CoterieError, ValueError):
    """A parameter value cannot be used; the message lists the valid ones."""


class TooManyPointsError(CoterieError, ValueError):
    """A method would need too much memory or time; the message names its limit."""


class TableError(CoterieError, ValueError):
    """A table on disk cannot be read; the message names the file and the place in the file."""


class OutputError(CoterieError, OSError):
    """A result cannot be written; no partial file is left."""


class DatasetUnavailableError(CoterieError, LookupError):
    """A dataset is not bundled, not cached and cannot be downloaded."""


class ModelFileError(CoterieError, ValueError):
    """A model file was not written by this version of coterie, or is damaged."""


class MissingExtraError(CoterieError, ImportError):
    """An optional package is not installed; the message names the extra that installs it."""


class ServiceError(CoterieError, RuntimeError):
    """A service cannot start, did not answer, or refused the request.

    ``status`` is the HTTP status of the answer and ``request_id`` the identifier of the request in
    the log of the service. Both are None if there was no answer.
    """

    def __init__(
        self, message: str = "", *, status: int | None = None, request_id: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.request_id = request_id


class CoterieWarning(UserWarning):
    """Base class of all warnings of coterie."""


class LabelWarning(CoterieWarning):
    """The labels can be used but look wrong."""


class DissentWarning(CoterieWarning):
    """No group of partitions has a majority, so all partitions are used."""


class WeakEvidenceWarning(CoterieWarning):
    """The recommended number of clusters is hardly better than others."""


class MemoryFallbackWarning(CoterieWarning):
    """A method was replaced by one that needs less memory."""


class DeviceFallbackWarning(CoterieWarning):
    """A GPU was requested but cannot be used; the CPU was used instead."""
