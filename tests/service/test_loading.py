"""What training needs is loaded while pictures are read, without looking for garbage."""

import gc
import sys

import pytest

import ordrank.collection.training  # noqa: F401 - it is loaded
from ordrank.service import learning


@pytest.fixture(params=[True, False], ids=["collecting", "not collecting"])
def collecting(request):
    was = gc.isenabled()
    (gc.enable if request.param else gc.disable)()
    yield request.param
    (gc.enable if was else gc.disable)()
    gc.unfreeze()


def test_garbage_is_looked_for_afterwards_as_before(collecting, monkeypatch):
    monkeypatch.setattr(learning, "_TRAINING", "colorsys")
    monkeypatch.delitem(sys.modules, "colorsys", raising=False)
    before = gc.get_freeze_count()
    learning._load_training()
    assert "colorsys" in sys.modules
    assert gc.isenabled() == collecting
    assert gc.get_freeze_count() > before


@pytest.mark.usefixtures("collecting")
def test_what_is_loaded_already_changes_nothing():
    before = gc.get_freeze_count()
    learning._load_training()
    learning._load_training()
    assert gc.get_freeze_count() == before


def test_so_it_is_where_loading_fails(collecting, monkeypatch):
    monkeypatch.setattr(learning, "_TRAINING", "ordrank.there_is_no_such_module")
    with pytest.raises(ImportError):
        learning._load_training()
    assert gc.isenabled() == collecting
