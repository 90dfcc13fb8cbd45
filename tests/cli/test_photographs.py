"""Commands on photographs with a pretrained network."""

import os

from tests.cli.running import start, write_folder
from tests.features.published import published_weights

NETWORK = "efficientnet-lite0"


def test_no_command_imports_pytorch(tmp_path):
    published_weights(NETWORK)
    forbidden = tmp_path / "forbidden" / "torch"
    forbidden.mkdir(parents=True)
    (forbidden / "__init__.py").write_text('raise RuntimeError("torch was imported")')
    environment = os.environ | {"PYTHONPATH": str(forbidden.parent)}
    write_folder(tmp_path / "pictures", count=16, table=tmp_path / "grades.csv")
    write_folder(tmp_path / "more", count=4, first=100, table=tmp_path / "more.csv")
    collection, pictures = tmp_path / "collection", sorted((tmp_path / "more").iterdir())
    for arguments in (
        ("fit", tmp_path / "pictures", "--labels", tmp_path / "grades.csv", "--features", NETWORK, "--out", collection),
        ("add", collection, tmp_path / "more", "--labels", tmp_path / "more.csv"),
        ("evaluate", collection, "--folds", "2"),
        ("rank", collection, *pictures),
        ("doctor", collection),
        ("info", collection),
    ):
        process = start(*arguments, env=environment)
        _, errors = process.communicate()
        assert process.returncode == 0, errors
