from cache.entry import run


def test_one_key() -> None:
    assert run is not None
