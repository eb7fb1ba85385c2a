"""The tree of errors and warnings."""

import inspect

import pytest

from coterie import errors

CLASSES = [getattr(errors, name) for name in errors.__all__]

ALSO = {
    errors.InvalidLabelsError: ValueError,
    errors.InvalidParameterError: ValueError,
    errors.TableError: ValueError,
    errors.OutputError: OSError,
    errors.DatasetUnavailableError: LookupError,
    errors.ModelFileError: ValueError,
    errors.MissingExtraError: ImportError,
    errors.ServiceError: RuntimeError,
    errors.CoterieWarning: UserWarning,
}


def test_all_that_is_defined_is_listed():
    """Every class of the module is public, and nothing else is."""
    defined = {name for name, _ in inspect.getmembers(errors, inspect.isclass)}
    assert defined == set(errors.__all__)


@pytest.mark.parametrize("kind", CLASSES)
def test_one_root_for_errors_and_one_for_warnings(kind):
    """Errors descend from CoterieError, warnings from CoterieWarning, by name and by kind."""
    root = errors.CoterieWarning if kind.__name__.endswith("Warning") else errors.CoterieError
    assert issubclass(kind, root)
    assert issubclass(kind, Warning) == (root is errors.CoterieWarning)


@pytest.mark.parametrize(("kind", "builtin"), ALSO.items())
def test_errors_can_be_caught_by_their_usual_names(kind, builtin):
    """Code that knows nothing of coterie catches its errors as the builtin ones they are."""
    with pytest.raises(builtin, match="what is wrong"):
        raise kind("what is wrong")


@pytest.mark.parametrize("kind", CLASSES)
def test_the_tree_is_drawn(kind):
    """The module's docstring draws every class, and what else it is."""
    line = next(line for line in errors.__doc__.splitlines() if kind.__name__ in line)
    if kind in ALSO:
        assert ALSO[kind].__name__ in line


@pytest.mark.parametrize("kind", CLASSES)
def test_every_class_is_documented(kind):
    """Each says in a sentence what it stands for."""
    assert kind.__doc__.rstrip().endswith(".")
