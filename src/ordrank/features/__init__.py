"""Picture decoding and feature extractors."""

from ordrank.features.concatenated import Concatenated
from ordrank.features.hog import Hog
from ordrank.features.onnx import OnnxNetwork
from ordrank.features.pictures import decode_picture, thumbnail
from ordrank.features.pixels import Pixels
from ordrank.features.pretrained import PretrainedNetwork
from ordrank.features.registry import find_extractor
from ordrank.features.timm import TimmNetwork

__all__ = [
    "Concatenated",
    "Hog",
    "OnnxNetwork",
    "Pixels",
    "PretrainedNetwork",
    "TimmNetwork",
    "decode_picture",
    "find_extractor",
    "thumbnail",
]
