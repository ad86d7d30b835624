"""C extensions are there, or they are not."""

from __future__ import annotations

import pytest

from kvec.words.extensions import load_extension


def test_an_extension_is_loaded_where_it_was_built() -> None:
    assert load_extension("kvec.words._never_built") is None
    library = load_extension("kvec.decide._kernel")
    if library is None:
        pytest.skip("the extensions were not built here")
    assert library.kvec_run_f32_16 is not None
