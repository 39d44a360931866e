"""Settings that every test shares."""

from hypothesis import settings

# The same examples in every run, few enough for make test, and no clock: machines differ.
settings.register_profile("tests", deadline=None, max_examples=25, derandomize=True)
settings.load_profile("tests")
