"""The host side of the prefix scan: fold each rank, merge across ranks, scan with corrected states."""

import torch

from kda import kernels


def context_parallel(
    q: torch.Tensor,
    k: torch.Tensor,
    w: torch.Tensor,
    u: torch.Tensor,
    do: torch.Tensor,
    decay: torch.Tensor,
    s0: torch.Tensor,
    ds_end: torch.Tensor,
) -> dict[str, torch.Tensor]:
    """Forward output and the states both directions need, for every simulated rank.

    Shapes: q, k, w [R, C, L, K]; u, do [R, C, L, V]; decay [R, C, K]; s0, ds_end [K, V]; float32.
    R ranks hold C chunks of L tokens each. Returns M, M_bwd [R, K, K]; H, H_bwd, S, dS [R, K, V]; out [R, C, L, V].
    """
    ranks, chunks, length, dim_k = k.shape
    dim_v = u.shape[-1]
    m, m_bwd = k.new_empty(ranks, dim_k, dim_k), k.new_empty(ranks, dim_k, dim_k)
    h, h_bwd = k.new_empty(ranks, dim_k, dim_v), k.new_empty(ranks, dim_k, dim_v)
    s, ds = torch.empty_like(h), torch.empty_like(h)
    out = torch.empty_like(u)
    sizes = {"L": length, "K": dim_k, "V": dim_v}
    kernels.pre_process_forward[(ranks,)](k, w, u, decay, m, h, chunks, **sizes)
    kernels.pre_process_backward[(ranks,)](k, w, q, do, decay, m_bwd, h_bwd, chunks, **sizes)
    kernels.merge[(1,)](m, h, s0, s, ranks, REVERSE=False, K=dim_k, V=dim_v)
    kernels.merge[(1,)](m_bwd, h_bwd, ds_end, ds, ranks, REVERSE=True, K=dim_k, V=dim_v)
    kernels.scan[(ranks,)](q, k, w, u, decay, s, out, chunks, **sizes)
    return {"M": m, "H": h, "M_bwd": m_bwd, "H_bwd": h_bwd, "S": s, "dS": ds, "out": out}
