"""Names of files that usually hold secrets: named before anything leaves this machine.

Invariant: only names are judged, never content; a name proves nothing and costs nothing.
"""

import re
from collections.abc import Iterable

from gitshadow.model import RepoPath

_SECRET = re.compile(
    rb"""(?:^|/)(?:
      \.env(?:\.(?!example$|sample$|template$|dist$)[^/]*)? | [^/]*\.env
    | id_(?:rsa|dsa|ecdsa|ed25519) | [^/]*\.(?:pem|key|p12|pfx|jks|keystore|kdbx|asc|gpg)
    | \.npmrc | \.pypirc | \.netrc | _netrc | \.htpasswd | \.git-credentials
    | credentials(?:\.(?:json|ya?ml|toml))? | secrets?\.(?:json|ya?ml|toml|env)
    | [^/]*(?:service[-_]?account|secret[-_]?key|private[-_]?key)[^/]*
    | \.aws/credentials | \.docker/config\.json | \.kube/config
    )$""",
    re.VERBOSE | re.IGNORECASE,
)


def looks_secret(path: RepoPath) -> bool:
    """Tell whether a file of this name usually holds a secret."""
    return _SECRET.search(path) is not None


def secret_names(paths: Iterable[RepoPath]) -> list[RepoPath]:
    """Return those of some paths that look secret, sorted."""
    return sorted(path for path in paths if looks_secret(path))
