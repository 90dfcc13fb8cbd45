"""From picture files to vectors: decoding, extractors, reading many files on all cores."""

from ordrank.features.hog import Hog
from ordrank.features.onnx import OnnxNetwork
from ordrank.features.pictures import decode_picture, open_picture, thumbnail
from ordrank.features.pixels import Pixels
from ordrank.features.reading import ReadPicture, read_one, read_pictures
from ordrank.features.registry import find_extractor

__all__ = [
    "Hog",
    "OnnxNetwork",
    "Pixels",
    "ReadPicture",
    "decode_picture",
    "find_extractor",
    "open_picture",
    "read_one",
    "read_pictures",
    "thumbnail",
]
