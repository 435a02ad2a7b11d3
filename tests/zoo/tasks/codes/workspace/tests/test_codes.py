def test_it_imports() -> None:
    from codes.kernels import multiply, quantise

    assert multiply is not quantise
