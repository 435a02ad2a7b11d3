"""Replaced by the generators."""


def run(x, w):
    return {"y": x @ w}
