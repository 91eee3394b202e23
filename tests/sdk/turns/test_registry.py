"""Declarations are checked when they are made: what means nothing is refused."""

import pytest

from gitshadow.sdk.turns.errors import RegistrationError
from gitshadow.sdk.turns.registry import ToolRegistry
from gitshadow.sdk.turns.values import Inverse, Reversibility


@pytest.mark.parametrize(
    ("options", "said", "hint"),
    [
        ({"secret": ("card",)}, "no option secret", "did you mean secrets"),
        ({"held": True}, "no option held", "did you mean hold"),
        ({"reversability": "reversible"}, "no option", "did you mean reversibility"),
        ({"zzz": 1}, "no option zzz", "allow_duplicates"),
        ({"secrets": "card"}, "secrets must be a tuple of names", "('card',)"),
        ({"errors": "none"}, "errors must be unknown or nothing_done", None),
        ({"on_capture_failure": "no"}, "must be refuse or record", None),
        ({"reversibility": "reversable"}, "no class 'reversable'", "reversible"),
        ({"reversibility": None}, "no class None", "reversible"),
    ],
)
def test_an_option_that_means_nothing_is_refused(
    options: dict[str, object], said: str, hint: str | None
) -> None:
    """A misspelled `secrets` would store the secret, a misspelled `hold` would send."""
    tools = ToolRegistry()
    with pytest.raises(RegistrationError) as caught:
        tools.add("card.charge", print, **options)  # type: ignore[arg-type]
    assert said in str(caught.value)
    assert hint is None or hint in str(caught.value.hint)
    assert tools.find("card.charge") is None


def test_a_class_may_be_a_text() -> None:
    tools = ToolRegistry()
    made = tools.add(
        "crm.set",
        print,
        reversibility="reversible",  # type: ignore[arg-type]
        inverse=lambda a, c, r: Inverse.tool("crm.unset"),
    )
    assert made.reversibility is Reversibility.REVERSIBLE
    assert made.options["reversibility"] is Reversibility.REVERSIBLE
