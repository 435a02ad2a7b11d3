"""A hierarchical KV cache: prefixes in host memory, copied back layer by layer while the forward pass runs."""
