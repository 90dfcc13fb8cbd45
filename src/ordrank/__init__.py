"""Rank pictures by an ordered label with a learned distance.

>>> from ordrank import OrdinalMetric, OrdinalRanker
>>> ranker = OrdinalRanker(metric=OrdinalMetric(kernel="linear"))

Public names are loaded on first use, so that ``import ordrank`` stays fast.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordrank._protocols import Ranking as Ranking
    from ordrank.collection.collection import Collection as Collection
    from ordrank.deep.network import OrdinalNetwork as OrdinalNetwork
    from ordrank.estimators.cmds_metric import CMDSMetric as CMDSMetric
    from ordrank.estimators.ldmlr import LDMLR as LDMLR
    from ordrank.estimators.ordinal_metric import OrdinalMetric as OrdinalMetric
    from ordrank.estimators.ranker import OrdinalRanker as OrdinalRanker

__version__ = "0.1.0"

_HOME = {
    "Collection": "ordrank.collection.collection",
    "CMDSMetric": "ordrank.estimators.cmds_metric",
    "LDMLR": "ordrank.estimators.ldmlr",
    "OrdinalMetric": "ordrank.estimators.ordinal_metric",
    "OrdinalNetwork": "ordrank.deep",
    "OrdinalRanker": "ordrank.estimators.ranker",
    "Ranking": "ordrank._protocols",
}

# Without OrdinalNetwork: where PyTorch is not installed, importing all names must not fail.
__all__ = ["LDMLR", "CMDSMetric", "Collection", "OrdinalMetric", "OrdinalRanker", "Ranking"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'ordrank' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
