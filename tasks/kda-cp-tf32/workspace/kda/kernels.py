"""Triton kernels of the context-parallel prefix scan.

Every chunk of ``L`` tokens acts on the recurrent state S [K, V] as an affine map

    S <- (Diag(decay) - k^T w) S + k^T u

and the gradient of the state runs through the transposed maps in reverse order. The operands k, w, u
and q arrive already corrected for what happens inside a chunk. All tensors are contiguous float32.
"""

import triton
import triton.language as tl


@triton.jit
def pre_process_forward(
    k_ptr, w_ptr, u_ptr, decay_ptr, m_ptr, h_ptr,
    CHUNKS, L: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Fold the chunks of one rank into S_end = M S_start + H. One program per rank."""
    rank = tl.program_id(0)
    i = tl.arange(0, K)
    tile_lk = tl.arange(0, L)[:, None] * K + i[None, :]
    tile_lv = tl.arange(0, L)[:, None] * V + tl.arange(0, V)[None, :]
    first = rank * CHUNKS
    k_ptrs = k_ptr + first * L * K + tile_lk
    w_ptrs = w_ptr + first * L * K + tile_lk
    u_ptrs = u_ptr + first * L * V + tile_lv
    decay_ptrs = decay_ptr + first * K + i[:, None]
    eye = i[:, None] == i[None, :]
    m = tl.where(eye, 1.0, 0.0)
    h = tl.zeros((K, V), dtype=tl.float32)
    for _ in range(CHUNKS):
        k_t = tl.trans(tl.load(k_ptrs))
        w = tl.load(w_ptrs)
        decay = tl.load(decay_ptrs)
        v = tl.load(u_ptrs) - tl.dot(w, h)
        h = h * decay + tl.dot(k_t, v)
        step = tl.where(eye, decay, 0.0) - tl.dot(k_t, w)
        m = tl.dot(step, m)
        k_ptrs += L * K
        w_ptrs += L * K
        u_ptrs += L * V
        decay_ptrs += K
    tile_kv = i[:, None] * V + tl.arange(0, V)[None, :]
    tl.store(m_ptr + rank * K * K + i[:, None] * K + i[None, :], m)
    tl.store(h_ptr + rank * K * V + tile_kv, h)


@triton.jit
def pre_process_backward(
    k_ptr, w_ptr, q_ptr, do_ptr, decay_ptr, m_ptr, h_ptr,
    CHUNKS, L: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Fold the transposed chunks of one rank, last to first: dS_start = M_bwd dS_end + H_bwd."""
    rank = tl.program_id(0)
    i = tl.arange(0, K)
    tile_lk = tl.arange(0, L)[:, None] * K + i[None, :]
    tile_lv = tl.arange(0, L)[:, None] * V + tl.arange(0, V)[None, :]
    last = rank * CHUNKS + CHUNKS - 1
    k_ptrs = k_ptr + last * L * K + tile_lk
    w_ptrs = w_ptr + last * L * K + tile_lk
    q_ptrs = q_ptr + last * L * K + tile_lk
    do_ptrs = do_ptr + last * L * V + tile_lv
    decay_ptrs = decay_ptr + last * K + i[:, None]
    eye = i[:, None] == i[None, :]
    m = tl.where(eye, 1.0, 0.0)
    h = tl.zeros((K, V), dtype=tl.float32)
    for _ in range(CHUNKS):
        k = tl.load(k_ptrs)
        w_t = tl.trans(tl.load(w_ptrs))
        decay = tl.load(decay_ptrs)
        dv = tl.dot(k, h)
        h = h * decay + tl.dot(tl.trans(tl.load(q_ptrs)), tl.load(do_ptrs))
        h -= tl.dot(w_t, dv)
        step = tl.where(eye, decay, 0.0) - tl.dot(w_t, k)
        m = tl.dot(step, m)
        k_ptrs -= L * K
        w_ptrs -= L * K
        q_ptrs -= L * K
        do_ptrs -= L * V
        decay_ptrs -= K
    tile_kv = i[:, None] * V + tl.arange(0, V)[None, :]
    tl.store(m_ptr + rank * K * K + i[:, None] * K + i[None, :], m)
    tl.store(h_ptr + rank * K * V + tile_kv, h)


@triton.jit
def merge(
    m_ptr, h_ptr, init_ptr, state_ptr,
    RANKS, REVERSE: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Run the ranks' affine maps one after another; state[r] is what rank r starts from. One program."""
    i = tl.arange(0, K)
    tile_kk = i[:, None] * K + i[None, :]
    tile_kv = i[:, None] * V + tl.arange(0, V)[None, :]
    state = tl.load(init_ptr + tile_kv)
    for n in range(RANKS):
        rank = n
        if REVERSE:
            rank = RANKS - 1 - n
        tl.store(state_ptr + rank * K * V + tile_kv, state)
        m = tl.load(m_ptr + rank * K * K + tile_kk)
        state = tl.dot(m, state) + tl.load(h_ptr + rank * K * V + tile_kv)


@triton.jit
def scan(
    q_ptr, k_ptr, w_ptr, u_ptr, decay_ptr, state_ptr, out_ptr,
    CHUNKS, L: tl.constexpr, K: tl.constexpr, V: tl.constexpr,
):  # fmt: skip
    """Replay the recurrence of one rank from its corrected initial state and emit q S. One program per rank."""
    rank = tl.program_id(0)
    i = tl.arange(0, K)
    tile_lk = tl.arange(0, L)[:, None] * K + i[None, :]
    tile_lv = tl.arange(0, L)[:, None] * V + tl.arange(0, V)[None, :]
    first = rank * CHUNKS
    q_ptrs = q_ptr + first * L * K + tile_lk
    k_ptrs = k_ptr + first * L * K + tile_lk
    w_ptrs = w_ptr + first * L * K + tile_lk
    u_ptrs = u_ptr + first * L * V + tile_lv
    out_ptrs = out_ptr + first * L * V + tile_lv
    decay_ptrs = decay_ptr + first * K + i[:, None]
    s = tl.load(state_ptr + rank * K * V + i[:, None] * V + tl.arange(0, V)[None, :])
    for _ in range(CHUNKS):
        tl.store(out_ptrs, tl.dot(tl.load(q_ptrs), s))
        v = tl.load(u_ptrs) - tl.dot(tl.load(w_ptrs), s)
        s = s * tl.load(decay_ptrs) + tl.dot(tl.trans(tl.load(k_ptrs)), v)
        q_ptrs += L * K
        k_ptrs += L * K
        w_ptrs += L * K
        u_ptrs += L * V
        out_ptrs += L * V
        decay_ptrs += K
