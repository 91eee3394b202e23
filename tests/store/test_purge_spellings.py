"""How texts that are purged may be spelled."""

from gitshadow.store.purge import forms_of


def test_a_quote_at_the_end_of_a_text_stays_in_every_form() -> None:
    """KEEP-09: else `secret` alone would be purged too."""
    assert forms_of([b'secret"']) == (b'secret\\"', b'secret"')


def test_a_text_of_odd_bytes_is_looked_for_as_a_path_is_written() -> None:
    assert rb"caf\303\251 bar" in forms_of(["café bar".encode()])
