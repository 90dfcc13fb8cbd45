"""scikit-learn estimators: objectives and solvers behind ``fit``, ``transform`` and ``predict``.

Names are imported on first use: reading a model needs :class:`OrdinalEmbedding` but not scikit-learn.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordrank.estimators._ordinal.embedding import OrdinalEmbedding as OrdinalEmbedding
    from ordrank.estimators.cmds_metric import CMDSMetric as CMDSMetric
    from ordrank.estimators.ldmlr import LDMLR as LDMLR
    from ordrank.estimators.ordinal_metric import OrdinalMetric as OrdinalMetric
    from ordrank.estimators.ranker import OrdinalRanker as OrdinalRanker

_MODULES = {
    "CMDSMetric": "cmds_metric",
    "LDMLR": "ldmlr",
    "OrdinalEmbedding": "_ordinal.embedding",
    "OrdinalMetric": "ordinal_metric",
    "OrdinalRanker": "ranker",
}

__all__ = ["LDMLR", "CMDSMetric", "OrdinalEmbedding", "OrdinalMetric", "OrdinalRanker"]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'ordrank.estimators' has no attribute {name!r}")
    return getattr(import_module(f"ordrank.estimators.{_MODULES[name]}"), name)
