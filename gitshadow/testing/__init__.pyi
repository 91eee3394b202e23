from gitshadow.testing.memory import MemoryStore as MemoryStore
