"""The tree of errors and warnings."""

import inspect

import pytest

from coterie import errors

CLASSES = [getattr(errors, name) for name in errors.__all__]

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


def test_every_class_is_public():
    """Every class of the module is in ``__all__``."""
    defined = {name for name, _ in inspect.getmembers(errors, inspect.isclass)}
    assert defined == set(errors.__all__)


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_has_the_right_base_and_is_documented(kind):
    """Errors descend from CoterieError, warnings from CoterieWarning; the docstring lists both."""
    root = errors.CoterieWarning if kind.__name__.endswith("Warning") else errors.CoterieError
    assert issubclass(kind, root)
    assert issubclass(kind, Warning) == (root is errors.CoterieWarning)
    assert kind.__doc__.rstrip().endswith(".")
    line = next(line for line in errors.__doc__.splitlines() if kind.__name__ in line)
    assert BUILTIN.get(kind, kind).__name__ in line


@pytest.mark.parametrize(("kind", "builtin"), BUILTIN.items())
def test_errors_can_be_caught_as_builtin_errors(kind, builtin):
    """Code that does not know coterie can catch its errors."""
    with pytest.raises(builtin, match="what is wrong"):
        raise kind("what is wrong")
