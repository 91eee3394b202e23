"""What push refspecs send, as far as one namespace of refs is concerned.

Source: git-push(1) and gitglossary(7), refspec; a negative one (`^refs/x/*`) takes out what others
send, wherever it stands.
Invariant: pure; in doubt a namespace counts as sent.
"""

from collections.abc import Iterable


def sends(specs: Iterable[str], namespace: str) -> bool:
    """Tell whether push refspecs send any ref below a namespace (`refs/x/`)."""
    wanted = False
    for spec in specs:
        if spec.startswith("^"):
            if _covers(spec[1:], namespace):
                return False
        else:
            source = spec.removeprefix("+").partition(":")[0]
            wanted |= _meets(source, namespace)
    return wanted


def _meets(source: str, namespace: str) -> bool:
    before, star, _ = source.partition("*")
    if not star:
        return source.startswith(namespace)
    return namespace.startswith(before) or before.startswith(namespace)


def _covers(source: str, namespace: str) -> bool:
    before, star, after = source.partition("*")
    return bool(star) and not after and namespace.startswith(before)
