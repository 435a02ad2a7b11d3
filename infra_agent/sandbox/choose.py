"""Pick a backend: by name, or the best there is."""

from functools import cache

from infra_agent.errors import SandboxError, UsageError
from infra_agent.sandbox.backend import Backend
from infra_agent.sandbox.bubblewrap import Bubblewrap
from infra_agent.sandbox.direct import Landlock, Open

BACKENDS: dict[str, Backend] = {"bubblewrap": Bubblewrap(), "landlock": Landlock(), "open": Open()}
"""Best first. ``open`` is never picked by ``auto``."""
AUTO = "auto"


@cache
def pick(name: str = AUTO) -> Backend:
    """The backend called ``name``; for ``auto`` the first that works here.

    Raises SandboxError with what each needs when none does, UsageError for a name that does not exist.
    """
    if name == AUTO:
        refusals = []
        for backend in (BACKENDS["bubblewrap"], BACKENDS["landlock"]):
            refusal = backend.refusal()
            if refusal is None:
                return backend
            refusals.append(refusal)
        raise SandboxError(f"no sandbox can be had here: {'; '.join(refusals)}; to run without any, name it: --sandbox open")
    if name not in BACKENDS:
        raise UsageError(f"unknown sandbox '{name}'; there are: {AUTO}, {', '.join(BACKENDS)}")
    refusal = BACKENDS[name].refusal()
    if refusal is not None:
        raise SandboxError(refusal)
    return BACKENDS[name]
