"""The files of the page."""

import re

from ordrank.web.app import STATIC

IMPORT = re.compile(r'^(?:import|export) .*? from "\./([\w.]+)";', re.MULTILINE | re.DOTALL)


def imported_at_once(name):
    """Return the modules that a module imports, directly or not, when it is loaded."""
    modules = set()
    for module in IMPORT.findall((STATIC / name).read_text()):
        modules |= {module} | imported_at_once(module)
    return modules


def test_modules_that_the_page_needs_at_once_are_preloaded():
    page = (STATIC / "index.html").read_text()
    assert sorted(imported_at_once("main.js")) == re.findall(r'rel="modulepreload" href="static/([\w.]+)"', page)
