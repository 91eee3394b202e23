from gitshadow.testing.memory import MemoryStore as MemoryStore
from gitshadow.testing.proof import Finding as Finding
from gitshadow.testing.proof import Flaw as Flaw
from gitshadow.testing.proof import Proof as Proof
from gitshadow.testing.proof import StepProof as StepProof
from gitshadow.testing.rollback import prove_rollback as prove_rollback
from gitshadow.testing.rollback import prove_rollback_async as prove_rollback_async
