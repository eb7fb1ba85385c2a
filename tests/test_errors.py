"""The tree of errors and warnings."""

import inspect

from coterie import errors

#: The classes of Python that code without coterie can catch.
BUILTIN = {
    errors.InvalidLabelsError: ValueError,
    errors.InvalidParameterError: ValueError,
    errors.TooManyPointsError: ValueError,
    errors.TableError: ValueError,
    errors.OutputError: OSError,
    errors.DatasetUnavailableError: LookupError,
    errors.ModelFileError: ValueError,
    errors.MissingExtraError: ImportError,
    errors.ServiceError: RuntimeError,
    errors.CoterieWarning: UserWarning,
}


def test_the_tree_in_the_docstring_is_that_of_the_classes():
    """Errors descend from CoterieError, warnings from CoterieWarning; the docstring lists both."""
    for name, kind in inspect.getmembers(errors, inspect.isclass):
        root = errors.CoterieWarning if name.endswith("Warning") else errors.CoterieError
        assert issubclass(kind, root), name
        assert issubclass(kind, Warning) == (root is errors.CoterieWarning), name
        assert issubclass(kind, BUILTIN.get(kind, kind)), name
        assert kind.__doc__.rstrip().endswith("."), name
        line = next(line for line in errors.__doc__.splitlines() if name in line)
        assert BUILTIN.get(kind, kind).__name__ in line
