def test_it_imports() -> None:
    from linear.kernel import layer

    assert layer is not None
