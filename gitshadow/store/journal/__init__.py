"""The journal: one SQLite file per repository; the only importer of sqlite3."""
