"""Autotuned kernels where there is no device to time configurations on: the first one left after pruning is taken.

The interpreter and the compiler both use this, so that what is emulated is what is compiled.
"""

from collections.abc import Callable
from typing import Any

from triton.runtime.autotuner import Autotuner


def take_first(note: Callable[[str], None]) -> None:
    """Replace Autotuner.run for this process; ``note`` is told of every kernel that had a choice."""

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        configs = self.prune_configs(kwargs) if len(self.configs) > 1 else self.configs
        config = configs[0]
        if len(configs) > 1:
            note(f"{self.base_fn.__name__} is autotuned: the first of {len(configs)} configurations was taken ({config})")
        if config.pre_hook is not None:
            config.pre_hook({**self.nargs, **kwargs, **config.all_kwargs()})
        try:
            return self.fn.run(*args, **kwargs, **config.all_kwargs())
        finally:
            self.nargs = None

    Autotuner.run = run
