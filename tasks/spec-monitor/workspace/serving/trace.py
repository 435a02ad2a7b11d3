"""Recorded decode traffic: what the workers reported for every request, and would report for each of its retries."""

from collections import deque

import torch

from serving.events import VerifyStep


class Trace:
    """``request_ids`` [R]; ``verify_steps`` [R, A]; the others [R, A, S], of which an attempt's first ``verify_steps`` count."""

    def __init__(
        self,
        request_ids: torch.Tensor,
        verify_steps: torch.Tensor,
        draft_tokens: torch.Tensor,
        accepted_tokens: torch.Tensor,
        output_tokens: torch.Tensor,
    ) -> None:
        self.request_ids: list[int] = request_ids.tolist()
        self.attempts = verify_steps.shape[1]
        self._lengths = verify_steps
        self._columns = draft_tokens, accepted_tokens, output_tokens

    def steps(self, row: int, attempt: int) -> deque[VerifyStep]:
        """The steps of one attempt, first to last."""
        length = int(self._lengths[row, attempt])
        return deque(map(VerifyStep, *(column[row, attempt, :length].tolist() for column in self._columns)))
