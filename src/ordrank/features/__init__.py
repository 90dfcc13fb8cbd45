"""Picture decoding and feature extractors."""

from ordrank.features.hog import Hog
from ordrank.features.onnx import OnnxNetwork
from ordrank.features.pictures import decode_picture, thumbnail
from ordrank.features.pixels import Pixels
from ordrank.features.registry import find_extractor

__all__ = ["Hog", "OnnxNetwork", "Pixels", "decode_picture", "find_extractor", "thumbnail"]
