from importlib.metadata import EntryPoint, EntryPoints

import numpy as np
import pytest

from ordrank.errors import InputError
from ordrank.features import Hog, OnnxNetwork, Pixels, find_extractor
from tests.features.export_network import export_network


class Mean:
    """An extractor of another package."""

    dim, fingerprint, side = 1, "mean;1", 1

    def __init__(self, options):
        if options == "wrong":
            raise TypeError("no such option")
        self.name = f"mean:{options}"

    def extract(self, pictures):
        return np.array([[np.asarray(picture).mean()] for picture in pictures], dtype=np.float32)


class Nameless(Mean):
    fingerprint = ""


class WithoutExtract(Mean):
    extract = None


def reject(options):
    raise InputError("invalid option")


@pytest.fixture
def external(monkeypatch):
    points = {name: f"{__name__}:{name}" for name in ("Mean", "Nameless", "WithoutExtract", "reject", "absent")}
    points |= {"pixels": f"{__name__}:Mean", "gone": "no_such_package:Extractor"}
    found = EntryPoints(EntryPoint(name, value, "ordrank.features") for name, value in points.items())
    monkeypatch.setattr("importlib.metadata.entry_points", lambda *, group: found.select(group=group))


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("pixels", Pixels()),
        ("pixels:48", Pixels(48)),
        ("pixels:48,grey", Pixels(48, grey=True)),
        ("pixels:,grey", Pixels(grey=True)),
        ("hog", Hog()),
        ("hog:96", Hog(96)),
    ],
)
def test_built_in(spec, expected):
    assert find_extractor(spec) == expected
    assert find_extractor(find_extractor(spec).name) == expected


def test_network_name_works_from_any_directory(tmp_path, monkeypatch):
    (tmp_path / "nets").mkdir()
    export_network(tmp_path / "nets" / "net.onnx", seed=0, size=32)
    monkeypatch.chdir(tmp_path)
    extractor = find_extractor("onnx:nets/net.onnx")
    assert isinstance(extractor, OnnxNetwork)
    monkeypatch.chdir("/")
    assert find_extractor(extractor.name).fingerprint == extractor.fingerprint


@pytest.mark.parametrize(
    "spec", ["pixels:x", "pixels:-3", "pixels:32,gray", "pixels:32,", "pixels:²", "hog:1.5", "hog:" + "9" * 5000]
)
def test_invalid_options_are_rejected(spec):
    with pytest.raises(InputError, match=spec[:6]):
        find_extractor(spec)


def test_a_network_needs_a_file():
    with pytest.raises(InputError, match="onnx:FILE"):
        find_extractor("onnx")


@pytest.mark.parametrize("name", ["efficientnet-lite0", "efficientnet-lite2"])
def test_pretrained_networks_have_no_options(name):
    with pytest.raises(InputError, match=f"{name}:small is not understood: {name} has no options"):
        find_extractor(f"{name}:small")


@pytest.mark.parametrize("spec", ["timm", "timm:", "timm:@net.pth", "timm:resnet18@"])
def test_a_timm_network_needs_a_name(spec):
    with pytest.raises(InputError, match="write timm:NAME or timm:NAME@FILE"):
        find_extractor(spec)


class TestDevices:
    def test_unknown_devices_are_rejected(self):
        with pytest.raises(InputError, match="no device 'tpu'; there are cpu and cuda"):
            find_extractor("pixels", device="tpu")

    @pytest.mark.parametrize("spec", ["pixels", "hog:32"])
    def test_only_networks_have_another_device(self, spec):
        with pytest.raises(InputError, match="is computed on the CPU; the device cuda is for efficientnet-lite0"):
            find_extractor(spec, device="cuda")

    def test_networks_get_the_device(self, monkeypatch):
        given = []
        monkeypatch.setattr("ordrank.features.registry.OnnxNetwork", lambda *arguments: given.append(arguments))
        monkeypatch.setattr("ordrank.features.registry.TimmNetwork", lambda *arguments: given.append(arguments))
        for spec in ("onnx:net.onnx", "timm:resnet18", "timm:resnet18@net.pth"):
            find_extractor(spec, device="cuda")
        assert given == [("net.onnx", "cuda"), ("resnet18", None, "cuda"), ("resnet18", "net.pth", "cuda")]


@pytest.mark.usefixtures("external")
class TestOtherPackages:
    def test_options_are_the_text_after_the_colon(self):
        assert find_extractor("Mean").name == "mean:"
        assert find_extractor("Mean:a,b:c").name == "mean:a,b:c"

    def test_built_in_names_have_priority(self):
        assert find_extractor("pixels") == Pixels()

    def test_unknown_name_lists_the_known_ones(self):
        with pytest.raises(
            InputError,
            match=r"no features called 'sift'; there are pixels, hog, efficientnet-lite0, .*, Mean, Nameless",
        ):
            find_extractor("sift:3")

    @pytest.mark.parametrize(("name", "part"), [("Nameless", "fingerprint"), ("WithoutExtract", "extract")])
    def test_incomplete_extractor_is_rejected(self, name, part):
        with pytest.raises(InputError, match=f"lack a valid {part}"):
            find_extractor(name)

    @pytest.mark.parametrize("spec", ["gone", "absent", "Mean:wrong"])
    def test_failing_entry_point_is_rejected(self, spec):
        with pytest.raises(InputError, match="cannot be set up"):
            find_extractor(spec)

    def test_input_errors_of_entry_points_are_passed_on(self):
        with pytest.raises(InputError, match=r"^invalid option$"):
            find_extractor("reject")
