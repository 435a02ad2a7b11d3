"""What the model of time charges, in virtual seconds. Modelled: ratios as on a card whose host link is slower than its attention."""

LAYERS = 8
PREPARE_S = 2.5e-3
"""Embedding, scheduling metadata and the first norm, before layer 0."""
INDEX_S = 0.3e-3
"""Scores of the indexer and the selection, a layer."""
ATTEND_S = 1.5e-3
"""Attention over the selected tokens and the MLP, a layer."""
