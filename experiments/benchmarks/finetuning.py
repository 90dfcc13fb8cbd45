"""Time of fine-tuning on photographs, compared with the network alone.

``prepared``: pictures a second of the forward and backward pass of the network alone, on a batch of random numbers on
the device; ``start``: the seconds that this takes, with the start of the device. ``fit``: seconds of
``OrdinalNetwork().fit`` from picture files to a fitted ranker thereafter, and of its parts. ``train``:
pictures a second that pass through the networks in training. Prints one JSON document.

    python experiments/benchmarks/finetuning.py [--data DIR] [--device cuda] [--image-size 160] [--pictures 2000]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from ordrank_experiments.datasets import PhotoFiles, extract_photos
from ordrank_experiments.machine import describe_machine, print_document

from ordrank.deep import OrdinalNetwork
from ordrank.deep.backbones import load_backbone
from ordrank.deep.training import record_backbone

ROUNDS = 50


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=None, help="folder of the data sets; ORDRANK_DATA by default")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--image-size", type=int, default=None)
    parser.add_argument("--pictures", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--out", type=Path, default=None)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        measured = measure(extract_photos("utkface", Path(folder), options.data), options)
    machine = describe_machine("torch")
    gpu = torch.cuda.get_device_name() if options.device == "cuda" else None
    document = {"benchmark": "finetuning", "device": options.device, "gpu": gpu, "image_size": options.image_size}
    print_document(document | measured | machine, options.out)


def measure(photos: PhotoFiles, options: Any) -> dict[str, Any]:
    """Return times and rates of one fit."""
    rows = [i for i in range(len(photos.grade)) if photos.part[i] == "train"][: options.pictures]
    files, y = [photos.files[i] for i in rows], photos.grade[rows]
    events = list[tuple[str, int, int, float]]()

    def note(stage: str, done: int, total: int) -> None:
        events.append((stage, done, total, time.perf_counter()))

    network = OrdinalNetwork(device=options.device, image_size=options.image_size, steps=options.steps, progress=note)
    start = time.perf_counter()
    prepared = prepared_rate(options, network.batch_size)
    begin = time.perf_counter()
    network.fit(files, y)
    end = time.perf_counter()
    # From the end of the first step: before it, the network is recorded.
    steps = [(done, at) for stage, done, total, at in events if stage.startswith("training") and total]
    (first, first_at), (last, last_at) = steps[0], steps[-1]
    reading = [at for stage, _, _, at in events if stage == "reading pictures"]
    train = network.batch_size * (last - first) / (last_at - first_at)
    return {
        "pictures": len(files),
        "networks": len(network.losses_),
        "steps": len(network.losses_[0]),
        "batch_size": network.batch_size,
        "seconds": {
            "start": round(begin - start, 2),
            "fit": round(end - begin, 2),
            "measure": round(reading[0] - begin, 2),
            "read": round(reading[-1] - reading[0], 2),
            "initialize": round(first_at - reading[-1], 2),
            "train": round(last_at - first_at, 2),
            "afterwards": round(end - last_at, 2),
        },
        "pictures_per_second": {"train": round(train), "prepared": round(prepared)},
        "train_over_prepared": round(train / prepared, 3),
    }


def prepared_rate(options: Any, batch_size: int) -> float:
    """Return the rate of the forward and backward pass of the network alone."""
    backbone = load_backbone("efficientnet-lite0", options.image_size)
    module = backbone.module.train().to(options.device, memory_format=torch.channels_last)
    shape = (batch_size, 3, backbone.preprocessing.size, backbone.preprocessing.size)
    run = record_backbone(module, shape, options.device)
    pictures = torch.randn(shape, device=options.device).to(memory_format=torch.channels_last)
    rounds = ROUNDS if options.device == "cuda" else 3

    def step() -> None:
        module.zero_grad(set_to_none=True)
        run(pictures).square().mean().backward()

    step()
    synchronize(options.device)
    begin = time.perf_counter()
    for _ in range(rounds):
        step()
    synchronize(options.device)
    return rounds * batch_size / (time.perf_counter() - begin)


def synchronize(device: str) -> None:
    """Wait until the device has done its work."""
    if device == "cuda":
        torch.cuda.synchronize()


if __name__ == "__main__":
    main()
