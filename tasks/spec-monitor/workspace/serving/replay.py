"""Entry point: replay a trace and say, attempt by attempt, what the engine did."""

import torch

from serving.config import EngineConfig
from serving.engine import Engine
from serving.request_table import RequestTable
from serving.trace import Trace

BLOCK = 8
"""Output tokens between two marks of the timeline."""
MARKS = 112
"""Marks of the timeline: 896 output tokens, more than any attempt has."""


def replay(
    request_ids: torch.Tensor,
    verify_steps: torch.Tensor,
    draft_tokens: torch.Tensor,
    accepted_tokens: torch.Tensor,
    output_tokens: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """R requests with A recorded attempts of at most S verify steps each.

    Inputs: request_ids [R] int64; verify_steps [R, A] int32; draft_tokens, accepted_tokens, output_tokens [R, A, S] int16.
    Returns, of attempts that were made (0 for the others), int32:
      abort [R, A]       1 when the monitor aborted it
      wasted [R, A]      output tokens when it was aborted
      timeline [R, A, M] 1 from the first multiple of 8 output tokens on at which it had been aborted
      acceptance [R, A]  accepted draft tokens per thousand draft tokens
      attempts [R]       attempts made
    """
    trace = Trace(request_ids, verify_steps, draft_tokens, accepted_tokens, output_tokens)
    engine = Engine(trace, EngineConfig())
    engine.run()
    return _outputs(engine.table, trace.attempts)


def _outputs(table: RequestTable, attempts: int) -> dict[str, torch.Tensor]:
    requests = len(table.records)
    abort, wasted, acceptance = (torch.zeros(requests, attempts, dtype=torch.int32) for _ in range(3))
    timeline = torch.zeros(requests, attempts, MARKS, dtype=torch.int32)
    for record in table.records:
        for number, ended in enumerate(record.attempts):
            acceptance[record.row, number] = round(1000 * ended.stats.accept_rate)
            if ended.aborted:
                abort[record.row, number] = 1
                wasted[record.row, number] = ended.output_tokens
                timeline[record.row, number, -(-ended.output_tokens // BLOCK) :] = 1
    made = torch.tensor([len(record.attempts) for record in table.records], dtype=torch.int32)
    return {"abort": abort, "wasted": wasted, "timeline": timeline, "acceptance": acceptance, "attempts": made}
