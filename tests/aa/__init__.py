"""Base against itself, and against itself with a little more work: how often the judge claims what is not, and finds what is."""
