"""Undos as DBOS workflows, in SQLite and in Postgres, by the kit that every engine passes."""

from collections.abc import Iterator

import pytest

from gitshadow.sdk.integrations.dbos import DbosEngine
from gitshadow.sdk.testing import CompensationEngineKit, OpenEngine
from tests.support.postgres import cluster


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Return the URL of a database that nobody else uses."""
    with cluster() as url:
        yield url


class TestOnSqlite(CompensationEngineKit):
    @pytest.fixture
    def open_engine(self) -> OpenEngine:
        return lambda place: DbosEngine(f"sqlite:///{place}/dbos.db")


class TestOnPostgres(CompensationEngineKit):
    @pytest.fixture
    def open_engine(self, postgres: str) -> OpenEngine:
        return lambda place: DbosEngine(postgres)
