"""The kind of a kernel, by its name. Platforms give efficiencies by kind.

Here: patterns for the names that cuBLAS, cuDNN, CUTLASS, MIOpen, Triton, FBGEMM and PyTorch give
their kernels. First match wins; a name that matches nothing is `other`."""

from __future__ import annotations

import re
from functools import lru_cache

_KINDS = (
    ("optimizer", r"multi_tensor_apply|adam|sgd_|adagrad|lamb_|optimizer"),
    ("attention", r"flash|fmha|attention|mha_"),
    ("embedding", r"embedding|index_select|indexSelect|gather_kernel"),
    ("convolution", r"conv|cudnn_infer|winograd|implicit_gemm|miopen|wgrad|dgrad|im2col"),
    ("gemm", r"gemm|gemv|cutlass|cublas|Cijk_|nvjet|splitKreduce|dot_kernel|matmul"),
    ("normalization", r"norm|softmax|log_?soft_?max|welford"),
    (
        "elementwise",
        r"elementwise|pointwise|triton_poi|copy_kernel|fill|CUDAFunctor|memset|memcpy|reduce_kernel",
    ),
)
_PATTERNS = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)


@lru_cache(maxsize=16384)
def kind(name: str) -> str:
    """The kind of a kernel's name."""
    return next((kind for kind, pattern in _PATTERNS if pattern.search(name)), "other")
