"""Settings of every test run: Hypothesis profiles, and one torch thread (tests are small and share the machine)."""

import importlib.util
import os

from hypothesis import HealthCheck, settings

# No deadline: how long an example takes says more of the machine than of the code.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, database=None, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")

if importlib.util.find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)
