from gitshadow.sdk.testing.engine_kit import (
    CompensationEngineKit as CompensationEngineKit,
)
from gitshadow.sdk.testing.engine_kit import OpenEngine as OpenEngine
from gitshadow.sdk.testing.memory_store import MemoryStore as MemoryStore
from gitshadow.sdk.testing.proof import Finding as Finding
from gitshadow.sdk.testing.proof import Flaw as Flaw
from gitshadow.sdk.testing.proof import Proof as Proof
from gitshadow.sdk.testing.proof import StepProof as StepProof
from gitshadow.sdk.testing.provider_kit import (
    RevisionProviderKit as RevisionProviderKit,
)
from gitshadow.sdk.testing.provider_kit import UndoableDocument as UndoableDocument
from gitshadow.sdk.testing.provider_kit import UndoProviderKit as UndoProviderKit
from gitshadow.sdk.testing.provider_kit import VersionedDocument as VersionedDocument
from gitshadow.sdk.testing.rollback import prove_rollback as prove_rollback
from gitshadow.sdk.testing.rollback import prove_rollback_async as prove_rollback_async
from gitshadow.sdk.testing.saga_kit import OpenStore as OpenStore
from gitshadow.sdk.testing.store_kit import SessionStoreKit as SessionStoreKit
