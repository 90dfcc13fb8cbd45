"""Objectives that a fit minimises, following the protocols of :mod:`ordrank._protocols`."""

from ordrank.objectives.cmds import CMDSObjective
from ordrank.objectives.ldmlr import LDMLRObjective

__all__ = ["CMDSObjective", "LDMLRObjective"]
