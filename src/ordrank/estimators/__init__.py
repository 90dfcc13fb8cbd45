"""scikit-learn estimators: objectives and solvers behind ``fit``, ``transform`` and ``predict``."""

from ordrank.estimators.cmds_metric import CMDSMetric
from ordrank.estimators.ldmlr import LDMLR
from ordrank.estimators.ordinal_metric import OrdinalMetric
from ordrank.estimators.ranker import OrdinalRanker
from ordrank.estimators.scaling import UnitMeanSquare

__all__ = ["LDMLR", "CMDSMetric", "OrdinalMetric", "OrdinalRanker", "UnitMeanSquare"]
