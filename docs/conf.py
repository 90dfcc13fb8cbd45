"""Sphinx configuration: ``make docs`` builds the site into docs/_build, offline and with warnings as errors."""

import re
import warnings
from importlib.util import find_spec

from docutils import nodes
from docutils.utils.math import MathError
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

import ordrank

logger = logging.getLogger(__name__)

project = "ordrank"
author = "The ordrank developers"
copyright = author
version = release = ordrank.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "sphinx_gallery.gen_gallery",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "examples", "auto_examples/*.ipynb", "auto_examples/*.py", "auto_examples/*.zip"]
templates_path = ["_templates"]
highlight_language = "none"
suppress_warnings = [
    "misc.highlighting_failure",  # \\copy of psql is no SQL
    "ref.python",  # attributes of the same name in several classes
]
autodoc_mock_imports = [] if find_spec("torch") else ["torch"]  # the API reference names what needs it
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 4

html_theme = "furo"
html_title = "ordrank"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_math_renderer = "mathml"
html_theme_options = {
    "light_css_variables": {"color-brand-primary": "#31688e", "color-brand-content": "#31688e"},
    "dark_css_variables": {"color-brand-primary": "#7fb8d8", "color-brand-content": "#7fb8d8"},
}

autodoc_typehints = "none"  # types stand in the docstrings
autodoc_member_order = "bysource"
autosummary_generate = True
autosummary_generate_overwrite = True
numpydoc_show_class_members = False  # autosummary's template lists them

sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"plot_",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "remove_config_comments": True,
    "min_reported_time": 1e9,  # seconds differ from build to build
    "write_computation_times": False,
    "matplotlib_animations": False,
    "image_srcset": ["2x"],
}
warnings.filterwarnings("ignore", message="FigureCanvasAgg is non-interactive")


def visit_math(translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as MathML, which browsers show without any script."""
    block = isinstance(node, nodes.math_block)
    try:
        text = re.sub(r"frac(\d)(\d)", r"frac{\1}{\2}", node.astext())  # docutils takes 12 for one number
        formula = tex2mathml(text, as_block=block)
    except MathError as error:
        logger.warning("cannot convert %r to MathML: %s", node.astext(), error, location=node)
        raise nodes.SkipNode from error
    translator.body.append(f'<div class="math">{formula}</div>' if block else formula)
    raise nodes.SkipNode


def skip_member(app, kind: str, name: str, member: object, skip: bool, options: object) -> bool | None:
    """Leave out what scikit-learn adds to every estimator for metadata routing."""
    return True if re.fullmatch(r"set_\w+_request|get_metadata_routing|set_output", name) else None


def setup(app) -> None:
    """Register the hooks above."""
    app.add_html_math_renderer("mathml", (visit_math, None), (visit_math, None))
    app.connect("autodoc-skip-member", skip_member)
