"""Whether a request whose attempt was aborted is tried again."""

from serving.config import RetryConfig
from serving.request_table import RequestRecord


class RetryPolicy:
    """A request that fails every time must not keep the engine busy for ever."""

    def __init__(self, config: RetryConfig) -> None:
        self._config = config

    def allows(self, record: RequestRecord) -> bool:
        """``record``: the request, whose last attempt was just aborted."""
        return record.attempt < self._config.max_retries
