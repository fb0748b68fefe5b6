"""Linear layers whose weights are laid out for the processor once, instead of at every product.

It makes questions and bulk work a fifth faster (docs/performance.md).
"""

from __future__ import annotations

import torch
from torch import nn


class _PackedLinear(nn.Module):
    """What `nn.Linear` computes, by operations of oneDNN that torch itself uses for models it compiles."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._weight = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), None)  # noqa: SLF001
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        product: torch.Tensor = torch.ops.mkldnn._linear_pointwise(  # noqa: SLF001
            inputs, self._weight, self._bias, "none", [], ""
        )
        return product


def pack(model: nn.Module) -> None:
    """Replace a model's linear layers by packed ones. Raises RuntimeError where torch has no such operations."""
    with torch.inference_mode():
        for module in list(model.modules()):
            for name, layer in list(module.named_children()):
                if type(layer) is nn.Linear:
                    setattr(module, name, _PackedLinear(layer))
