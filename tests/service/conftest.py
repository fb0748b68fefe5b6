"""What the tests of the service share."""

from tests.models import shared_models  # noqa: F401 - a fixture
