"""Text of somebody else in Markdown of ours: it makes no heading, link, mention, table or HTML of its own."""

import re

_HIDDEN = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_MEANING = re.compile(r"[&<>|\\`*_{}\[\]~$@#]|(?<=:)//|(?<=www)\.")


def inline(text: str) -> str:
    """Text of somebody else inside a line of ours: on one line, and meaning nothing. At a line's beginning it could be a list or a rule."""
    flat = visible(" ".join(text.split()))
    return _MEANING.sub(lambda match: "".join(f"&#{ord(character)};" for character in match[0]), flat)


def fenced(text: str, language: str = "text") -> str:
    """Text of somebody else as a block that it cannot end."""
    shown = visible(text.replace("\r\n", "\n").replace("\r", "\n"))
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall(r"`+", shown)), default=0))
    return f"{fence}{language}\n{shown}\n{fence}"


def visible(text: str) -> str:
    """Control and bidirectional characters, and line ends that are no newline, as escapes."""
    return _HIDDEN.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
