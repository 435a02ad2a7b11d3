"""The kernel of the linear layer."""

import triton
import triton.language as tl

CONFIGS = [triton.Config({"ROWS": 32, "COLUMNS": 32}, num_warps=4), triton.Config({"ROWS": 16, "COLUMNS": 64}, num_warps=4)]


def _by_rows(configs: list[triton.Config], named_args: dict[str, object], **_: object) -> list[triton.Config]:
    """Flat tiles where there are few rows."""
    return configs[1:] if named_args["m"] <= 16 else configs[:1]


@triton.autotune(configs=CONFIGS, key=["m", "n", "k"], prune_configs_by={"early_config_prune": _by_rows})
@triton.jit
def layer(x, w, bias, out, m, n, k, DEPTH: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, k, DEPTH):
        depth = start + tl.arange(0, DEPTH)
        left = tl.load(x + rows[:, None] * k + depth[None, :], mask=(rows[:, None] < m) & (depth[None, :] < k), other=0.0)
        right = tl.load(w + depth[:, None] * n + columns[None, :], mask=(depth[:, None] < k) & (columns[None, :] < n), other=0.0)
        total = tl.dot(left, right, total, input_precision="tf32x3")
    total = tl.maximum(total + tl.load(bias + columns, mask=columns < n, other=0.0)[None, :], 0.0)
    tl.store(out + rows[:, None] * n + columns[None, :], total, mask=(rows[:, None] < m) & (columns[None, :] < n))
