"""The engine's bookkeeping, on traffic that is written out by hand."""

import torch

from serving.config import RetryConfig
from serving.replay import replay
from serving.request_table import RequestRecord, RequestTable
from serving.retry import RetryPolicy


def traffic(*attempts: list[tuple[int, int]]) -> dict[str, torch.Tensor]:
    """One request with the given attempts, each a list of (draft, accepted); every step emits what it accepted and one token."""
    longest = max(len(steps) for steps in attempts)
    columns = torch.zeros(3, 1, len(attempts), longest, dtype=torch.int16)
    for number, steps in enumerate(attempts):
        emitted = 0
        for at, (drafted, accepted) in enumerate(steps):
            emitted += accepted + 1
            columns[:, 0, number, at] = torch.tensor([drafted, accepted, emitted])
    return {
        "request_ids": torch.tensor([7]),
        "verify_steps": torch.tensor([[len(steps) for steps in attempts]], dtype=torch.int32),
        "draft_tokens": columns[0],
        "accepted_tokens": columns[1],
        "output_tokens": columns[2],
    }


def test_an_attempt_with_usual_acceptance_runs_to_its_end() -> None:
    found = replay(**traffic([(0, 0)] + [(4, 2), (4, 3), (4, 1)] * 80, [(4, 2)] * 4))
    assert found["abort"].tolist() == [[0, 0]]
    assert found["attempts"].tolist() == [1]
    assert found["acceptance"].tolist() == [[500, 0]]


def test_an_attempt_that_accepts_nothing_is_tried_again() -> None:
    found = replay(**traffic([(0, 0)] + [(4, 0)] * 500, [(0, 0)] + [(4, 2)] * 100))
    assert found["abort"].tolist() == [[1, 0]]
    assert found["attempts"].tolist() == [2]
    assert 0 < found["wasted"][0, 0] < 500


def test_a_request_has_so_many_retries() -> None:
    policy, record = RetryPolicy(RetryConfig(max_retries=2)), RequestRecord(7, 0)
    assert policy.allows(record)
    record.attempt = 2
    assert not policy.allows(record)


def test_a_room_goes_to_one_request_at_a_time() -> None:
    table = RequestTable([1, 2], rooms=1)
    first, second = table.records
    assert table.enter(first)
    assert not table.enter(second)
