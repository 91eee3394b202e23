"""What usually is a secret, by the name of a file or by its content: named before anything leaves.

The forms of tokens are those that their issuers document; a password without a form is not known.
Invariant: a finding names the kind, never the secret.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

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

_TOKENS = {
    "a private key": rb"-----BEGIN (?:[A-Z]+ ){0,3}PRIVATE KEY-----",
    "an AWS key": rb"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "a GitHub token": rb"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})",
    "a GitLab token": rb"\bglpat-[A-Za-z0-9_-]{20,}",
    "a Slack token": rb"\bxox[abeoprs]-[A-Za-z0-9-]{10,}",
    "an Anthropic key": rb"\bsk-ant-[A-Za-z0-9_-]{20,}",
    "an OpenAI key": rb"\bsk-(?:proj-|svcacct-)?[A-Za-z0-9_-]{40,}",
    "a Google key": rb"\bAIza[0-9A-Za-z_-]{35}",
    "a Stripe key": rb"\b[rs]k_live_[0-9a-zA-Z]{16,}",
    "an npm token": rb"\bnpm_[A-Za-z0-9]{36}\b",
    "a PyPI token": rb"\bpypi-AgE[A-Za-z0-9_-]{50,}",
    "a SendGrid key": rb"\bSG\.[A-Za-z0-9_-]{22}\.[A-Za-z0-9_-]{43}",
    "a Hugging Face token": rb"\bhf_[A-Za-z0-9]{34,}",
}
_KINDS = list(_TOKENS)
_ANY_TOKEN = re.compile(b"|".join(b"(%b)" % form for form in _TOKENS.values()))


class Token(NamedTuple):
    """Hold what kind of secret a content has, and in which line, from 1."""

    kind: str
    line: int


def token_in(data: bytes) -> Token | None:
    """Return the first secret of a content, None where none is known by its form."""
    match = _ANY_TOKEN.search(data)
    if match is None:
        return None
    kind = _KINDS[(match.lastindex or 1) - 1]
    return Token(kind, data.count(b"\n", 0, match.start()) + 1)


def looks_secret(path: RepoPath) -> bool:
    """Tell whether a file of this name usually holds a secret."""
    return _SECRET.search(path) is not None


def secret_names(paths: Iterable[RepoPath]) -> list[RepoPath]:
    """Return those of some paths that look secret, sorted."""
    return sorted(path for path in paths if looks_secret(path))
