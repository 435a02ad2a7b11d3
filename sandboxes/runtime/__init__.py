"""Code shared by the programs that run inside a cage: standard library and numpy only."""
