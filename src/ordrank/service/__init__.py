"""What can be done with a collection: the only thing that the command line and the page call."""

from ordrank.service.asking import ask
from ordrank.service.describing import Description, describe
from ordrank.service.exporting import export
from ordrank.service.judging import Evaluation, evaluate
from ordrank.service.learning import Fitted, Grades, Intake, Watch, add, fit, remove

__all__ = [
    "Description",
    "Evaluation",
    "Fitted",
    "Grades",
    "Intake",
    "Watch",
    "add",
    "ask",
    "describe",
    "evaluate",
    "export",
    "fit",
    "remove",
]
