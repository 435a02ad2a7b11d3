def test_both_kernels_import() -> None:
    from linear.kernel import layer, rectify

    assert layer is not rectify
