"""A request that moves goes on as if it had not moved, and formats give back what they store."""

import numpy as np
import pytest

from hybrid import decode, formats

LAYERS, HEADS, ROWS, DIM, INDEX, WIDTH = 1, 2, 128, 64, 32, 4
CHANNELS = HEADS * ROWS + 2 * decode.STATE


def steps(length: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    shapes = {
        "xbc": (length, LAYERS, CHANNELS), "taps": (LAYERS, WIDTH, CHANNELS), "kv": (length, 2, DIM),
        "q": (length, 4, DIM), "index_k": (length, INDEX), "index_q": (length, INDEX),
    }  # fmt: skip
    drawn = {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
    return {**drawn, "decay": rng.uniform(0.5, 1.0, (length, LAYERS, HEADS)).astype(np.float32)}


def between(given: dict[str, np.ndarray], start: int, stop: int) -> dict[str, np.ndarray]:
    return {name: value if name == "taps" else value[start:stop] for name, value in given.items()}


def test_a_request_that_moves_goes_on_as_if_it_had_not() -> None:
    given = steps(20)
    whole, image = decode.run({}, given, 0, 7)
    first, left = decode.run({}, between(given, 0, 9), 0, 7)
    second, right = decode.run(left, between(given, 9, 20), 9, 7)
    assert np.array_equal(np.concatenate([first, second]), whole) and right == image


def test_an_image_holds_what_was_stored() -> None:
    given = steps(12)
    _, image = decode.run({}, given, 0, 7)
    held = decode.contents(image, between(given, 0, 0), 12)
    assert held["kv"].shape == (12, 2, DIM) and held["ssm"].shape == (LAYERS, HEADS, ROWS, decode.STATE)
    assert np.abs(held["index"] - given["index_k"]).max() < 0.2


@pytest.mark.parametrize(("dtype", "most"), [("fp32", 0.0), ("bf16", 2.0**-8), ("fp8", 2.0**-4), ("int8", 2.0**-5)])
def test_a_format_keeps_its_precision(dtype: str, most: float) -> None:
    values = np.random.default_rng(1).uniform(0.5, 1.0, (5, 64)).astype(np.float32)
    codes, scales = formats.encode(values, dtype, 32)
    assert np.abs(formats.decode(codes, scales, dtype, 32) - values).max() <= most
