"""Settings of the engine that concern speculative decoding."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class MonitorConfig:
    """When an attempt's acceptance is called abnormal."""

    accept_length_floor: float = 1.4
    """Output tokens per verify step below which the output is taken for garbled."""
    warmup_steps: int = 4
    """Verify steps of an attempt before it is judged."""


@dataclass(frozen=True)
class RetryConfig:
    """What happens to a request whose attempt was aborted."""

    max_retries: int = 2
    """Attempts that a request may have after its first one."""


@dataclass(frozen=True)
class EngineConfig:
    """All of it."""

    max_running: int = 64
    """Rooms, that is, requests that decode at the same time."""
    monitor: MonitorConfig = field(default_factory=MonitorConfig)
    retry: RetryConfig = field(default_factory=RetryConfig)
