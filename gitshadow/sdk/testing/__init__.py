"""What agent programs test themselves with; types: `__init__.pyi`.

Invariant: importing this package loads nothing else, for pytest imports it in every project of
any program that has gitshadow installed.
"""

_HOMES = {
    "gitshadow.sdk.testing.engine_kit": ("CompensationEngineKit", "OpenEngine"),
    "gitshadow.sdk.testing.memory_store": ("MemoryStore",),
    "gitshadow.sdk.testing.proof": ("Finding", "Flaw", "Proof", "StepProof"),
    "gitshadow.sdk.testing.provider_kit": (
        "RevisionProviderKit",
        "UndoableDocument",
        "UndoProviderKit",
        "VersionedDocument",
    ),
    "gitshadow.sdk.testing.rollback": ("prove_rollback", "prove_rollback_async"),
    "gitshadow.sdk.testing.saga_kit": ("OpenStore",),
    "gitshadow.sdk.testing.store_kit": ("SessionStoreKit",),
}

__all__ = [name for names in _HOMES.values() for name in names]


def __dir__() -> list[str]:
    """Return the public names, which are not here before they are asked for."""
    return __all__


def __getattr__(name: str) -> object:
    """Load a public name from where it lives."""
    for module, names in _HOMES.items():
        if name in names:
            import importlib

            return getattr(importlib.import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
