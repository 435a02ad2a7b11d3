"""What a request printed, made short enough to read: its head, its tail, long lines clamped, and never without the end of a traceback."""

_TRACEBACK = "Traceback (most recent call last):"
_SHOWN_OF_TRACEBACK = 8


def excerpt(data: bytes, head: int = 20, tail: int = 40, widest: int = 400) -> str:
    """At most ``head`` + ``tail`` lines of ``widest`` characters; what is left out is counted. The whole is kept elsewhere, as bytes."""
    lines = data.decode(errors="replace").splitlines()
    if len(lines) > head + tail:
        kept = lines[len(lines) - tail :]
        left_out = lines[head : len(lines) - tail]
        lines = [*lines[:head], *_between(left_out, kept), *kept]
    return "\n".join(_clamped(line, widest) for line in lines)


def last_line(data: bytes, widest: int = 400) -> str:
    """The last line that says something: as a rule how a traceback ends."""
    lines = data.decode(errors="replace").strip().splitlines()
    return _clamped(lines[-1], widest) if lines else "no output"


def _clamped(line: str, widest: int) -> str:
    return line if len(line) <= widest else f"{line[:widest]} (+{len(line) - widest} characters)"


def _between(left_out: list[str], kept: list[str]) -> list[str]:
    """What stands for the lines left out: their count, and the end of the last traceback if the tail does not have one."""
    ending = [] if any(line.startswith(_TRACEBACK) for line in kept) else _last_traceback(left_out + kept, len(left_out))
    return [f"... {len(left_out) - len(ending)} lines left out ...", *ending, *(["..."] if ending else [])]


def _last_traceback(lines: list[str], left_out: int) -> list[str]:
    """Those of the last lines of the last traceback that lie among the first ``left_out``: up to the exception, which ends it."""
    starts = [number for number, line in enumerate(lines) if line.startswith(_TRACEBACK)]
    if not starts:
        return []
    end = next((number for number in range(starts[-1] + 1, len(lines)) if lines[number][:1] not in (" ", "")), len(lines) - 1)
    return lines[max(starts[-1], end - _SHOWN_OF_TRACEBACK + 1) : min(end + 1, left_out)]
