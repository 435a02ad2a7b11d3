from matmul.tiles import row_tiles


def test_tiles_cover_every_row_once() -> None:
    for m in (1, 24, 25, 96):
        assert [row for tile in row_tiles(m) for row in range(m)[tile]] == list(range(m))
