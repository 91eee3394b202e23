"""Arguments that are to be filled in later, as data: `"$result.id"` in a declaration.

A text that begins with `$` names a value: `$arguments`, `$captured` or `$result`, then keys and
numbers after dots; `$$` begins an ordinary text with a dollar. Nothing else is understood, so a
declaration can never run code.
Invariant: what a text names is there, or the whole template is refused; nothing becomes null.
"""

from collections.abc import Mapping, Sequence

from gitshadow.sdk.turns.values import JsonObject

SOURCES = ("arguments", "captured", "result")


class TemplateError(ValueError):
    """Report a template that names what is not there; the text says what."""


def fill(template: object, scene: JsonObject) -> object:
    """Return a template with the values of a scene in it.

    Args:
        template: JSON.
        scene: What the names stand for.

    Raises:
        TemplateError: a name has no value.
    """
    if isinstance(template, str):
        return _text(template, scene)
    if isinstance(template, Mapping):
        return {key: fill(value, scene) for key, value in template.items()}
    if isinstance(template, Sequence):
        return [fill(value, scene) for value in template]
    return template


def names(template: object) -> set[str]:
    """Return the first words of all names in a template, known ones or not."""
    if isinstance(template, str):
        is_name = template.startswith("$") and not template.startswith("$$")
        return {template[1:].partition(".")[0]} if is_name else set()
    if isinstance(template, Mapping):
        return set().union(*map(names, template.values()))
    if isinstance(template, Sequence):
        return set().union(*map(names, template))
    return set()


def _text(text: str, scene: JsonObject) -> object:
    if text.startswith("$$"):
        return text[1:]
    if not text.startswith("$"):
        return text
    found: object = scene
    for step in text[1:].split("."):
        found = _inside(found, step, text)
    return found


def _inside(value: object, step: str, text: str) -> object:
    if isinstance(value, Mapping) and step in value:
        inner: object = value[step]
        return inner
    if isinstance(value, list | tuple) and step.isdecimal() and int(step) < len(value):
        item: object = value[int(step)]
        return item
    raise TemplateError(f"there is no {text}")
