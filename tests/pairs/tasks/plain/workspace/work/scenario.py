"""Replaced by the generators."""

from feedback.events.runtime import Runtime


async def main(runtime: Runtime) -> None:
    """Nothing."""
    await runtime.sleep(0.0)
