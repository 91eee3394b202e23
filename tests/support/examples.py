"""What hypothesis may not complain of, in one place: a test's own list replaces the profile's."""

from collections.abc import Callable
from typing import TypeVar

from hypothesis import HealthCheck, settings

# How long drawing takes says how busy the machine is.
NEVER_TOO_SLOW = [HealthCheck.too_slow]
SHARED_FIXTURE = [*NEVER_TOO_SLOW, HealthCheck.function_scoped_fixture]

_Test = TypeVar("_Test", bound=Callable[..., None])


def shares_fixture(test: _Test) -> _Test:
    """Let all examples share the fixture of the test, which must not change it."""
    # A function: what is made at import has not seen the profile yet.
    return settings(suppress_health_check=SHARED_FIXTURE)(test)
