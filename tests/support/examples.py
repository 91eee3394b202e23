"""What hypothesis may not complain of, in one place: a test's own list replaces the profile's."""

from hypothesis import HealthCheck, settings

# How long drawing takes says how busy the machine is.
NEVER_TOO_SLOW = [HealthCheck.too_slow]
SHARED_FIXTURE = [*NEVER_TOO_SLOW, HealthCheck.function_scoped_fixture]

shares_fixture = settings(suppress_health_check=SHARED_FIXTURE)
"""Every example plays in the one fixture of the test, which leaves it as it was."""
