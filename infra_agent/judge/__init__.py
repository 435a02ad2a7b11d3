"""The judge: owns every number that a gate reads, and never runs a candidate's code."""
