from linear.tiles import tile


def test_sides() -> None:
    assert [tile(extent) for extent in (7, 33, 64, 100)] == [16, 32, 64, 64]
