"""Replaced by the generators."""


def run(x):
    return {"y": x * 2}
