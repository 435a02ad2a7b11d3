"""Count what a Triton entry does, by source line: bytes, floating-point operations, special functions, work done again."""
