"""Replaced by the generators."""


def run(a, b, c, x):
    return {"y": a @ x, "z": b @ x + c}
