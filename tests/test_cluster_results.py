"""Numbers in the guide to clusters are those of the committed results, and the results show what they must."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results"


def cluster_lines():
    found = json.loads((RESULTS / "cluster_scale.json").read_text())
    units = {"rounds": (1e3, "ms"), "tasks": (1e3, "ms"), "merged": (1e6, "µs")}
    yield "| phase | on one core of this machine |"
    for phase, rates in found["seconds_of_a_unit"].items():
        scales = {kind: units.get(kind, (1e9, "ns")) for kind in rates}
        parts = (f"{kind} {rates[kind] * scale:.3g} {unit}" for kind, (scale, unit) in scales.items() if rates[kind])
        yield f"| {phase} | {', '.join(parts)} |"
    yield "| map | n | d | S | s | K | phase | measured | foretold over measured |"
    for row in (row for part in found["large"].values() for row in part):
        sizes = f"{row['map']} | {row['rows']:,} | {row['features']} | {row['shards']}"
        local = f"{row['components']} | {row['neighbors']}" if row["map"] == "local term" else " | "
        for phase, seconds in row["seconds"].items():
            ratio = row["foretold_over_measured"][phase]
            yield f"| {sizes} | {local} | {phase} | {seconds:.2g} s | {ratio:.2f} |"
    yield "| a billion | scheduler | workers | storage |"
    for phase, parts in found["billion"]["seconds"].items():
        yield f"| {phase} | {parts['tasks']:,.0f} s | {parts['workers']:,.0f} s | {parts['storage']:,.0f} s |"


def cluster_figures():
    found = json.loads((RESULTS / "cluster.json").read_text())
    for name in ("memory", "spilling"):
        most, seconds = max(found[name]["peak_of_workers"]), found[name]["seconds"]
        yield f"{seconds:.1f} s, and neither worker ever had more than {most / 1e6:.0f} MB"
    yield f"{found['spilling']['written_to_disk'] / 1e9:.1f} GB were written"
    yield f"({min(found['overhead']['ratios']):.2f} to {max(found['overhead']['ratios']):.2f} in five runs)"
    yield f"two workers take {found['overhead']['ratio']:.2f} times as long as one process with two threads"
    scale = json.loads((RESULTS / "cluster_scale.json").read_text())
    tasks, rows = scale["tasks"], (*scale["small"], *scale["large"]["linear"])
    many, few = (next(row["worker_memory"] for row in rows if row["rows"] == n) / 1e6 for n in (10**7, 10**5))
    yield f"Workers had at most {many:.0f} MB with ten million samples, and {few:.0f} MB with a hundred thousand"
    whole, scheduler = (tasks[f"milliseconds_of_{name}"] for name in ("a_task", "scheduler_and_client"))
    yield f"A task without work takes {whole:.2f} ms, {scheduler:.2f} ms of them in the scheduler and the client"


def test_the_guide_to_clusters_quotes_what_was_measured():
    document = (ROOT / "docs" / "cluster.md").read_text()
    for line in cluster_lines():
        assert line in document, line
    for text in cluster_figures():
        assert text in " ".join(document.split()), text


def test_a_cluster_gives_the_same_at_little_cost():
    found = json.loads((RESULTS / "cluster.json").read_text())
    for case in found["same"].values():
        assert case["rows"] == 200_000
        assert set(case["relative_difference"]) == {"1", "2", "5", "16"}
        assert max(case["relative_difference"].values()) <= 1e-6
    for name in ("memory", "spilling"):
        assert found[name]["bytes"] >= 2e9
        assert found[name]["limit_per_worker"] == 10**9
        assert found[name]["within_limits"]
    assert (found["overhead"]["rows"], found["overhead"]["features"]) == (400_000, 200)
    assert max(found["overhead"]["ratios"]) <= 1.3


def test_a_model_foretells_what_a_cluster_takes():
    found = json.loads((RESULTS / "cluster_scale.json").read_text())
    large = [row for part in found["large"].values() for row in part]
    assert max(row["rows"] for row in large) == 10**7
    for row in large:
        assert all(0.5 <= ratio <= 2 for ratio in row["foretold_over_measured"].values()), row
        if row["map"] == "local term":
            assert abs(row["image_bytes"]["measured"] / row["image_bytes"]["foretold"] - 1) < 0.01
    small = max(row["worker_memory"] for row in found["small"] if row["rows"] == 100_000)
    most = next(row for row in large if row["rows"] == 10**7)
    assert most["worker_memory"] < 1.2 * small, "memory of workers grows with the samples"
    assert most["client_growth"] < 50e6, "memory of the client grows with the samples"
