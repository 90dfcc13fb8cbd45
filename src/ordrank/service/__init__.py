"""What can be done with a collection: the only thing that the command line and the page call.

Names are loaded on first use: reading pictures can begin before what training needs is loaded.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ordrank.service.asking import ask as ask
    from ordrank.service.asking import embed as embed
    from ordrank.service.describing import Description as Description
    from ordrank.service.describing import describe as describe
    from ordrank.service.exporting import export as export
    from ordrank.service.judging import Evaluation as Evaluation
    from ordrank.service.judging import evaluate as evaluate
    from ordrank.service.learning import Fitted as Fitted
    from ordrank.service.learning import Grades as Grades
    from ordrank.service.learning import Intake as Intake
    from ordrank.service.learning import Watch as Watch
    from ordrank.service.learning import add as add
    from ordrank.service.learning import fit as fit
    from ordrank.service.learning import remove as remove
    from ordrank.service.library import Asked as Asked
    from ordrank.service.library import Library as Library
    from ordrank.service.library import Part as Part

_HOME = {
    "asking": ("ask", "embed"),
    "describing": ("Description", "describe"),
    "exporting": ("export",),
    "judging": ("Evaluation", "evaluate"),
    "learning": ("Fitted", "Grades", "Intake", "Watch", "add", "fit", "remove"),
    "library": ("Asked", "Library", "Part"),
}

__all__ = [
    "Asked",
    "Description",
    "Evaluation",
    "Fitted",
    "Grades",
    "Intake",
    "Library",
    "Part",
    "Watch",
    "add",
    "ask",
    "describe",
    "embed",
    "evaluate",
    "export",
    "fit",
    "remove",
]


def __getattr__(name: str) -> Any:
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"ordrank.service.{module}"), name)
    raise AttributeError(f"module 'ordrank.service' has no attribute {name!r}")
