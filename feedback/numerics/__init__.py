"""Say where a Triton entry loses accuracy: a float64 shadow beside every value, and what promoting one dot would change."""
