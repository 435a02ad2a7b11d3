"""Run the entry on the judge's inputs and leave its output bytes where the judge compares them."""
