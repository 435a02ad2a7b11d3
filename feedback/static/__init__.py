"""Compile the entry's Triton kernels for a GPU that need not be there and say what the compiler made of them."""
