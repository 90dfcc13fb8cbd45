"""Checkpoints of timm's networks with random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

MODEL = "resnet10t"


def import_timm() -> Any:
    """Return timm, or skip the test."""
    torch = pytest.importorskip("torch")
    define_missing_operators(torch)
    try:
        import timm
    except Exception as error:  # noqa: BLE001 - torchvision for another PyTorch raises anything
        pytest.skip(f"timm cannot be imported, pip install 'ordrank[deep]': {error}")
    return timm


def define_missing_operators(torch: Any) -> None:
    """Let a torchvision built for CUDA be imported beside a PyTorch for CPUs: no network here uses the operators."""
    from contextlib import suppress

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        with suppress(RuntimeError):  # it is there
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    torch.ordrank_test_library = library  # definitions live as long as this object


def write_timm_checkpoint(directory: Path, *, model: str = MODEL, suffix: str = ".safetensors", **options: Any) -> str:
    """Write a small network; return the name of its features."""
    timm = import_timm()
    import torch
    from safetensors.torch import save_file

    torch.manual_seed(0)
    weights = timm.create_model(model, **options).state_dict()
    file = directory / f"net{suffix}"
    if suffix == ".safetensors":
        save_file(weights, file)
    else:
        torch.save(weights, file)
    return f"timm:{model}@{file}"
