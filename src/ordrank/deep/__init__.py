"""Networks fine-tuned on grades. Needs PyTorch: the extra ``deep``."""

try:
    import torch  # noqa: F401
except ImportError as error:
    raise ImportError("ordrank.deep needs PyTorch: pip install 'ordrank[deep]'") from error

from ordrank.deep.network import OrdinalNetwork

__all__ = ["OrdinalNetwork"]
