"""What a fit minimises. Every class follows the contracts of :mod:`ordrank._types`."""

from ordrank.objectives.cmds import CMDSObjective
from ordrank.objectives.ldmlr import LDMLRObjective

__all__ = ["CMDSObjective", "LDMLRObjective"]
