"""A recorded place and tests that are coroutines, as for the turns themselves."""

from tests.sdk.turns.conftest import place, pytest_pyfunc_call

__all__ = ["place", "pytest_pyfunc_call"]
