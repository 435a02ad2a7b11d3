"""A target and its draft model, in small: order-1 Markov chains over 64 tokens, in every state that traffic can be in.

Speculative sampling as published: a token x of the draft is accepted with probability min(1, P(x) / Q(x)); after the first one that is not,
the target adds a token of the rest max(P - Q, 0); after the last one it adds a token of P. What a worker reports follows from that
alone. The chains are one deployment and always the same; a seed draws the traffic.
"""

import numpy as np

VOCABULARY = 64
_QUANTILES = 4096
"""Tokens are drawn by table: one entry for each of so many equal shares of probability."""
LEVELS = {"close": 0.07, "near": 0.15, "usual": 0.25, "far": 0.4, "farther": 0.5}
"""Share of the draft's probability that has nothing to do with the target."""
STEPS = 800
"""Verify steps that a record has room for; no attempt needs as many."""
MODES = (*LEVELS, "undrafted", "garbled", "loop", "table", "boilerplate")
MODE = {name: number for number, name in enumerate(MODES)}


def _random_chain(rng: np.random.Generator) -> np.ndarray:
    return rng.dirichlet(np.full(VOCABULARY, 0.05), size=VOCABULARY)


def _template(rng: np.random.Generator, sure: float) -> tuple[np.ndarray, np.ndarray]:
    """A text that both models know by heart but for ``1 - sure`` of its tokens."""
    order = rng.permutation(VOCABULARY)
    follows = np.zeros((VOCABULARY, VOCABULARY))
    follows[order, np.roll(order, -1)] = 1.0
    return sure * follows + (1 - sure) * _random_chain(rng), sure * follows + (1 - sure) * _random_chain(rng)


def _chains() -> list[tuple[np.ndarray, np.ndarray]]:
    """Target and draft of each mode."""
    rng = np.random.default_rng(20260401)
    target, noise, corrupted = (_random_chain(rng) for _ in range(3))
    pairs = {name: (target, (1 - share) * target + share * noise) for name, share in LEVELS.items()}
    pairs["undrafted"] = pairs["usual"]
    pairs["garbled"] = corrupted, pairs["usual"][1]
    attractor = np.full((VOCABULARY, VOCABULARY), 0.001 / VOCABULARY)
    attractor[:, 0] += 0.999
    pairs["loop"] = attractor, attractor
    pairs["table"] = _template(rng, 0.96)
    pairs["boilerplate"] = _template(rng, 1.0)
    return [pairs[name] for name in MODES]


def _draws(rows: np.ndarray) -> np.ndarray:
    """For each row of probabilities the token at every quantile, int16 [V, quantiles]."""
    at = (np.arange(_QUANTILES) + 0.5) / _QUANTILES
    total = np.cumsum(rows, axis=1)
    total[:, -1] = 1.0
    return np.stack([np.searchsorted(row, at) for row in total]).clip(0, VOCABULARY - 1).astype(np.int16)


def _rest(target: np.ndarray, draft: np.ndarray) -> np.ndarray:
    left = np.maximum(target - draft, 0.0)
    size = left.sum(axis=1, keepdims=True)
    return np.where(size > 1e-12, left / np.maximum(size, 1e-12), target)


_PAIRS = _chains()
_TARGET = np.stack([_draws(p) for p, _ in _PAIRS])
_DRAFT = np.stack([_draws(q) for _, q in _PAIRS])
_REST = np.stack([_draws(_rest(p, q)) for p, q in _PAIRS])
_ACCEPT = np.stack([np.minimum(1.0, p / np.maximum(q, 1e-300)) for p, q in _PAIRS]).astype(np.float32)


def decode(
    starts: np.ndarray, modes: np.ndarray, lengths: np.ndarray, depth: np.ndarray, twin: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Decode N attempts, each until it has emitted ``lengths`` tokens.

    ``starts``, ``modes`` [N, segments]: from ``starts[n, i]`` tokens on, attempt n is in mode ``modes[n, i]``. ``depth`` [N]: draft tokens
    a step. ``twin`` [N]: the attempt whose random numbers this one uses; where two share them and have been in the same modes, they are
    equal. Returns steps [N]; drafted, accepted, emitted [N, STEPS], the first step being prefill.
    """
    count = len(lengths)
    drafted, accepted, emitted = (np.zeros((count, STEPS), np.int16) for _ in range(3))
    now, out, steps = np.zeros(count, np.int64), np.ones(count, np.int64), np.ones(count, np.int64)
    emitted[:, 0] = 1
    going = np.flatnonzero(out < lengths)
    step = 0
    while going.size:
        step += 1
        mode = modes[going, (starts[going] <= out[going, None]).sum(axis=1) - 1]
        tried = np.where(mode == MODE["undrafted"], 0, depth[going])
        numbers = rng.integers(0, _QUANTILES, (count, 10))[twin[going]]
        now[going], taken = _verify(mode, now[going], tried, numbers)
        out[going] += taken + 1
        steps[going] += 1
        drafted[going, step], accepted[going, step], emitted[going, step] = tried, taken, out[going]
        going = going[out[going] < lengths[going]]
    return steps, drafted, accepted, emitted


def _verify(mode: np.ndarray, now: np.ndarray, tried: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One verify step: the last token, and how many draft tokens were accepted."""
    taken, open_ = np.zeros(len(now), np.int64), np.ones(len(now), bool)
    for place in range(int(tried.max(initial=0))):
        drafting = open_ & (place < tried)
        token = _DRAFT[mode, now, numbers[:, place]].astype(np.int64)
        kept = drafting & ((numbers[:, 4 + place] + 0.5) / _QUANTILES < _ACCEPT[mode, now, token])
        refused = drafting & ~kept
        now = np.where(kept, token, np.where(refused, _REST[mode, now, numbers[:, 8]], now))
        taken += kept
        open_ &= ~refused
    return np.where(open_, _TARGET[mode, now, numbers[:, 9]], now), taken
