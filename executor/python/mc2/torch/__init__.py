"""mc2 for PyTorch: matmul and collective in one call, on the caller's stream and process group (docs/python.md).

Without a plan, and where mc2 gains nothing, the operators run the unfused calls of torch.
"""

import atexit

from . import inductor
from ._groups import forget as _forget_groups
from ._plans import forget as _forget_plans
from .functional import forget as _forget_arguments
from .functional import (
    all_gather_matmul,
    all_to_all_matmul,
    matmul_all_reduce,
    matmul_all_reduce_rms_norm,
    matmul_all_to_all,
    matmul_reduce_scatter,
    matmul_reduce_scatter_rms_norm,
    replicated_matmul,
)
from .cpu import cpu_all_gather, cpu_all_reduce, cpu_all_to_all, cpu_reduce_scatter
from .cpu import forget as _forget_cpu
from .chosen import all_gather_grouped_matmul, grouped_matmul_all_reduce, grouped_matmul_reduce_scatter
from .embeddings import embedding_all_to_all
from .experts import Routing, moe_dispatch_matmul, moe_layer, moe_matmul_combine, route
from .layers import ColumnParallelLinear, RowParallelLinear
from .tuning import Tuned, tune, tune_seen

__all__ = [
    "ColumnParallelLinear",
    "Routing",
    "RowParallelLinear",
    "Tuned",
    "all_gather_grouped_matmul",
    "all_gather_matmul",
    "all_to_all_matmul",
    "cpu_all_gather",
    "cpu_all_reduce",
    "cpu_all_to_all",
    "cpu_reduce_scatter",
    "embedding_all_to_all",
    "forget",
    "grouped_matmul_all_reduce",
    "grouped_matmul_reduce_scatter",
    "inductor",
    "matmul_all_reduce",
    "matmul_all_reduce_rms_norm",
    "matmul_all_to_all",
    "matmul_reduce_scatter",
    "matmul_reduce_scatter_rms_norm",
    "moe_dispatch_matmul",
    "moe_layer",
    "moe_matmul_combine",
    "replicated_matmul",
    "route",
    "tune",
    "tune_seen",
]


def forget() -> None:
    """Forgets process groups, what was tuned in this process, and what CUDA graphs have captured."""
    _forget_arguments()
    _forget_groups()
    _forget_plans()
    _forget_cpu()
    inductor.forget()


atexit.register(forget)  # ends the threads of groups before the objects that they use are destroyed
