"""What a sandbox must hold, tried for real: each attack is a small program that does its worst, and a look at what came of it."""
