"""A module of one's own, captured without data: parameters, operations, bytes and saved tensors."""

import torch
from torch import nn
from torch.nn import functional

import armillary as arm


class Layer(nn.Module):
    """Attention and a perceptron, each added to its input."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.RMSNorm(width), nn.RMSNorm(width)])
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Tensors of batch x tokens x width."""
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norms[0](x)).view(batch, tokens, 3, self.heads, -1)
        query, key, value = qkv.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).reshape(batch, tokens, width))
        return x + self.down(functional.gelu(self.up(self.norms[1](x))))


with torch.device("meta"):  # No memory, whatever the size.
    model = nn.Sequential(*(Layer(4096, 32) for _ in range(16)))
    inputs = torch.empty(1, 4096, 4096)

found = arm.capture(model.bfloat16(), inputs.bfloat16(), name="mine")
print(f"{found.parameters.total / 1e9:.2f} billion parameters, {found.kernels:,} kernels")
print(f"{found.flops / 1e12:.0f} + {found.flops_backward / 1e12:.0f} Tflop, forward + backward")
print(f"{found.saved / 1e9:.1f} GB kept for the backward pass")
for row in found.modules(depth=1):
    print(
        f"{row.module or 'all the rest':16} x {row.count:<3} {row.flops / 1e12:7.1f} Tflop forward"
    )
