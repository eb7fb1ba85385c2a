"""Names that are imported when first used."""

import pytest

from coterie.runtime.lazy_names import import_name


def test_a_public_name_is_kept():
    """It is what its home has under that name, and is found without asking from then on."""
    from coterie.runtime.devices import readable_bytes

    names = {}
    assert import_name("readable_bytes", "coterie", {"readable_bytes": "devices"}, names) is (
        readable_bytes
    )
    assert names == {"readable_bytes": readable_bytes}


def test_a_module_is_given_and_anything_else_is_an_attribute_error():
    """As in any package."""
    assert import_name("devices", "coterie", {}, {}).__name__ == "coterie.runtime.devices"
    with pytest.raises(AttributeError, match="module 'coterie' has no attribute 'nothing'"):
        import_name("nothing", "coterie", {}, {})
