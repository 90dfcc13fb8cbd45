"""Rows of tables that documents quote from the committed results; None stands for a label of free wording."""

from ordrank_experiments import tables

from experiments.tests.documents import results


def paper_rows():
    """MAE of every method and training size, published and re-run."""
    rows = [row for row in results("reproduce")["rows"] if row["table"] in "57"]
    for family in ("cMDS-DML", "LDMLR"):
        published = (row["published_mae"] for row in rows if row["method"] == f"{family} calibrated")
        yield (None, *(f"{value:.4f}" for value in published))
    for method in tables.METHOD_NAMES:
        if method not in (tables.CMDS_RAW, tables.LDMLR_RAW):
            digits = 1 if method == tables.LDMLR_LITERAL else 4  # its further digits depend on rounding
            found = {table: [row for row in rows if (row["table"], row["method"]) == (table, method)] for table in "57"}
            assert any(found.values()), method
            parts = ([f"{row['mae_mean']:.{digits}f}" for row in own] or ["–"] * 3 for own in found.values())
            yield (method, *(value for part in parts for value in part))


def paper_reading_rows():
    """MAE of readings of the paper: by scale of the landmarks and iterations, by seed, and by s."""
    readings = results("paper_readings")
    for row in readings["landmarks"]:
        pairs = (f"{size['mae'][0]:.3f}, {size['mae'][1]:.3f}" for size in row["sizes"])
        yield (str(row["squared_norm"]), str(row["iterations"]), *pairs)
    for row in readings["seeds"]:
        yield (str(row["seed"]), *(f"{size['mae'][2]:.4f}" for size in row["sizes"]))
    yield ("mean", *(f"{mean:.4f}" for mean, _ in means_over_seeds()))
    rows = [row for row in results("reproduce")["rows"] if row["table"] == "2"]
    yield (None, *(f"{row['published_mae']:.4f}" for row in rows if row["method"] == tables.CMDS_LITERAL))
    for method in (tables.CMDS_ZERO_START, tables.CMDS_TRAINING_PCA, tables.CMDS_EVEN_DRAWS):
        yield (method, *(f"{row['mae_mean']:.4f}" for row in rows if row["method"] == method))


def means_over_seeds():
    """Mean of the MAE with k = 5 over seeds and its standard error from the splits of all seeds, by n."""
    readings = results("paper_readings")
    for sizes in zip(*(row["sizes"] for row in readings["seeds"]), strict=True):
        variance = sum(size["std"][2] ** 2 for size in sizes) / readings["repeats"]
        yield sum(size["mae"][2] for size in sizes) / len(sizes), variance**0.5 / len(sizes)


def standard_errors_apart(row):
    """Difference of a row of the re-run from the published MAE over its standard error."""
    squared = (row["mae_std"] ** 2 + row["published_std"] ** 2) / row["repeats"]
    return (row["mae_mean"] - row["published_mae"]) / squared**0.5


def paper_time_rows():
    ratios = results("reproduce")["summary"]["fit_time_ratios"]
    keys = ("ratio", "literal_over_literal", "calibrated_over_calibrated", "calibrated_over_calibrated_with_choice")
    for key in keys:
        parts = ([row[key] for row in ratios if row["table"] in numbers] for numbers in ("345", "67"))
        umist, fgnet = (f"{min(part):.1f} to {max(part):.1f}" for part in parts)
        yield (None, umist, fgnet + (" (cMDS-DML takes no step there)" if key == "literal_over_literal" else ""))


def paper_figures():
    """Figures in the text of the document with the tables of the paper."""
    summary = results("reproduce")["summary"]
    ratios = [row["ratio"] for row in summary["fit_time_ratios"]]
    yield f"{min(ratios):.1f} to {max(ratios):.1f} times as long"
    yield f"lower mean in {summary['cmds_beats_ldmlr_own_votes']} of {summary['shared_cells']} shared cells"
    yield from _reading_figures()


def _reading_figures():
    """Figures in the text on further readings of the paper."""
    rows, readings = results("reproduce")["rows"], results("paper_readings")

    def of(method, table):
        return [row for row in rows if row["method"] == method and row["table"] == table]

    yield "from L⁰ = [I 0] it gives " + " / ".join(
        f"{row['mae_mean']:.4f}" for row in of(tables.CMDS_TRAINING_PCA, "5")
    )
    scaled, by_K = of(tables.CMDS_SCALED, "7"), of(tables.CMDS_SCALED, "6")
    apart = [abs(standard_errors_apart(row)) for row in (*scaled, *by_K)]
    yield f"at most {max(apart):.1f} standard errors from the published error in all {len(apart)} cells"
    yield f"{by_K[0]['mae_mean']:.4f} for K = 4, 5 and 6"
    again = next(row for row in readings["landmarks"] if (row["squared_norm"], row["iterations"]) == (136, 100))
    yield f"at n = 50 {again['sizes'][1]['mae'][1]:.4f} instead of {scaled[1]['mae_mean']:.4f}"
    ldmlr = {name: of(name, "7")[1]["mae_mean"] for name in (tables.LDMLR_RAW, tables.LDMLR_CALIBRATED)}
    yield "{:.3f} raw and {:.3f} aligned".format(*ldmlr.values())
    even = of(tables.CMDS_EVEN_DRAWS, "5")
    low, middle, high = (
        (mean - row["published_mae"]) / (error**2 + row["published_std"] ** 2 / row["repeats"]) ** 0.5
        for (mean, error), row in zip(means_over_seeds(), even, strict=True)
    )
    yield f"{-low:.1f} standard errors below the published error at n = 30, {middle:.1f} and {high:.1f} above it"
    own, published, random = (
        " / ".join(f"{row[key]:.3f}" for row in of(method, "5"))
        for method, key in (
            (tables.CMDS_EVEN_DRAWS, "mae_std"),
            (tables.CMDS_EVEN_DRAWS, "published_std"),
            (tables.CMDS_ZERO_START, "mae_std"),
        )
    )
    yield f"the standard deviation over splits is {own} (published: {published})"
    yield f"that of random draws from L⁰ = 0 is {random}"


def umist_limit_rows():
    rows = results("umist_limits")["rows"]
    for gain in ("1", "0.1", "0.01", "0.001", "0"):
        yield (f"{gain}·[I 0]", *(f"{row['mae'][f'gain {gain}'][0]:.4f}" for row in rows))
    for ridge in ("1e-06", "0.0001", "0.0003", "0.001", "0.003", "0.01", "0.1"):
        yield (ridge, *(f"{row['mae'][f'ridge {ridge}'][0]:.4f}" for row in rows))
    for key in ("smallest_by_ridge", "smallest_by_split"):
        yield (None, *(f"{row[key]:.4f}" for row in rows))
    yield (None, *(f"{row['mae']['Euclidean'][0]:.4f}" for row in rows))
    for key, form in (
        ("ldmlr_median_log10_norm_of_A", ".0f"),
        ("ldmlr_splits_changed_by_a_hundredth", "d"),
        ("ldmlr_largest_change_by_rounding", ".2f"),
    ):
        yield (None, *(format(row[key], form) for row in rows))
    pairs = [(row["mae"]["LDMLR"][0], row["mae"]["LDMLR, pictures changed by 1e-13"][0]) for row in rows]
    yield (None, *(f"{a:.3f}, {b:.3f}" for a, b in pairs))


def comparison_rows():
    for row in results("compare")["summary"]["conditions"]:
        outcomes = ("yes" if row[f"best_or_tied{test}"] else "no" for test in ("", "_uncorrected"))
        errors = f"{row['mae']:.3f}", row["best_other"], f"{row['best_other_mae']:.3f}"
        yield (row["benchmark"], row["rule"], str(row["n"]), *errors, *outcomes)


def headline_rows():
    """Rows of the comparison with the largest training size of each condition, without the uncorrected test."""
    largest = {row[:2]: row[:-1] for row in comparison_rows()}  # sizes ascend
    yield from largest.values()


def probability_rows():
    """Ranked probability score and calibration error of the default model and of the best baseline by each."""
    found = results("compare")
    largest = {(row["benchmark"], row["rule"]): row["n"] for row in found["summary"]["conditions"]}  # sizes ascend
    for (benchmark, rule), n in largest.items():
        here = [row for row in found["rows"] if (row["benchmark"], row["rule"], row["n"]) == (benchmark, rule, n)]
        cells = []
        for score in ("rps", "calibration"):
            default = next(row[score] for row in here if row["kind"] == "default")
            others = (row for row in here if row["kind"] == "baseline" and row[score] is not None)
            best = min(others, key=lambda row: row[score])
            cells += [f"{default:.3f}", best["method"], f"{best[score]:.3f}"]
        yield (benchmark, rule, str(n), *cells)


def default_model_rows():
    found = results("ordinal_metric")
    for key in (
        "mae_labelled", "mae_unlabelled", "mae_never_seen_labelled", "mae_never_seen_half",
        "same_person_in_grade_euclidean", "same_person_in_grade_labelled", "same_person_euclidean",
        "same_person_labelled", "same_person_unlabelled",
    ):  # fmt: skip
        yield (None, *(f"{row['mean'][key]:.3f}" for row in found["umist"]))
    for row in found["variability"]:
        name = {"umist": "UMIST", "fgnet": "FG-NET"}[row["dataset"]]
        by_seed, mean = row["mae_by_seed"], f"{row['mae']:.3f} ± {row['standard_error']:.3f}"
        yield (name, str(row["n"]), f"{by_seed[0]:.3f}", mean, f"{min(by_seed):.3f}, {max(by_seed):.3f}")
    for row in found["landmarks"]:
        error, share = row["relative_error_of_the_map"], row["time_over_exact"]
        yield (str(row["landmarks"]), f"{error:.4f}", f"{row['mae']:.3f}", f"{share:.2f}")


def discriminant_rows():
    for row in results("discriminant")["rows"]:
        change = f"{100 * row['change']:+.1f} % ± {100 * row['standard_error']:.1f}"
        yield (row["data"], str(row["n"]), f"{row['mae_without']:.3f}", f"{row['mae']:.3f}", change)


def defaults_rows():
    rows = results("defaults")["rows"]
    for name in dict.fromkeys(row["without"] for row in rows):
        found = [row for row in rows if row["without"] == name]
        worst = max(found, key=lambda row: row["change"])
        condition = f"{worst['data']}, {worst['n']} samples" + ", with unlabelled samples" * worst["unlabeled"]
        where = condition if worst["change"] > 0 else "nowhere"
        mean = sum(row["change"] for row in found) / len(found)
        largest = f"{100 * worst['change']:+.1f} % ± {100 * worst['standard_error']:.1f}"
        yield (f"`{name}`", f"{100 * mean:+.1f} %", largest, where)


def speed_rows(part):
    for row in results("speed")[part]["rows"]:
        if "not_run" in row:
            yield (row["name"], row["not_run"], *[""] * 5)
            continue
        time, memory = (f"{row[f'{key}_over_ours']:.3g}" for key in ("fit_seconds", "peak_megabytes"))
        fit = f"{row['fit_seconds']:.2g} s", time, f"{row['peak_megabytes']:.0f} MB", memory
        yield (row["name"], *fit, f"{row['query_milliseconds']:.2f} ms", f"{row['mae']:.3f}")


def large_fit_rows():
    million, largest = results("speed")["million"], results("speed")["neighbors"]["rows"][-1]
    yield (None, f"{million['product_seconds']:.2f} s")
    yield (None, f"{million['fit_seconds']:.2f} s")
    yield (None, f"{million['fit_over_product']:.1f}")
    yield (None, f"{million['peak_megabytes_beyond_samples']:.0f} MB")
    yield (None, f"{million['mae']:.3f}; {million['mae_euclidean']:.3f}")
    yield (None, f"{largest['neighbor_seconds']:.1f} s; {largest['rest_seconds']:.1f} s")


def solver_rows():
    for row in results("solvers")["rows"]:
        ratios = (f"{row[f'{name}_over_fast']:.0f}×" for name in ("literal", "paper"))
        yield (f"{row['mu']:g}", str(row["fast_iterations"]), *ratios)


def scaling_rows():
    found = results("scaling")
    for row in (*found["gradients"].values(), *found["fits"].values()):
        yield (None, f"{row['exponent']:.2f}")


def recall_rows():
    for row in results("speed")["recall"]["rows"]:
        times = f"{row['exact_seconds'] / row['most_seconds']:.1f}"
        yield (str(row["dimensions"]), times, f"{row['recall_reported']:.3f}", f"{row['recall_measured']:.3f}")


def device_rows():
    found = results("gpu")
    for row in found["fits"]:
        times = (f"{row[f'{name}_seconds']:.3f} s" for name in ("fit", "neighbours", "rest"))
        yield (f"{row['samples']:,}", *times, f"{row['mae_learned']:.3f}", f"{row['mae_euclidean']:.3f}")
    gradient, near, ceilings = found["gradient"], found["neighbours"], found["ceilings"]
    yield (None, f"{ceilings['copy_bytes_per_second'] / 1e12:.2f} TB/s", "")
    rate = f"{1e3 * gradient['seconds']:.2f} ms, {gradient['bytes_per_second'] / 1e12:.2f} TB/s"
    yield (None, rate, f"{gradient['share_of_copy_ceiling']:.0%}")
    yield (None, f"{ceilings['half_flop_per_second'] / 1e12:.0f} TFLOP/s", "")
    yield (None, f"{near['flop_per_second'] / 1e12:.0f} TFLOP/s", f"{near['share_of_half_ceiling']:.0%}")
    yield (None, f"{near['plain_tf32_over_ours_one_label']:.1f} times as long", "")
    whole, solver = (found["same_as_cpu"][name] for name in ("whole_fit", "solver_at_full_size"))
    for difference in (
        whole["difference"],
        solver["difference"],
        solver["difference_of_objective"],
        solver["after_the_same_iterations"]["difference"],
    ):
        yield (None, f"{difference:.0e}")
    for row in results("gpu_default")["fits"]:
        times = (f"{row[f'{name}_seconds']:.3f} s" for name in ("fit", "choice", "neighbours", "rest"))
        errors = f"{row['mae_learned']:.3f}", f"{row['mae_euclidean']:.3f}"
        yield (row["model"], row["kernel"], *times, *errors)
    for row in results("gpu_default")["same_as_cpu"]:
        differences = ("" if row[key] is None else f"{row[key]:.0e}" for key in ("components", "positions"))
        yield (f"{row['model']}, {row['precision']}", *differences)


def collection_rows():
    found = results("collection")
    reading, query = found["reading"], found["query"]
    yield (None, f"{reading['fit_over_pillow']:.2f} times as long")
    yield (None, f"{reading['fit_with_a_ninth_graded_over_pillow']:.2f} times as long")
    growth = found["memory"]["growth_beyond_the_feature_matrix"]
    yield (None, f"{growth:.0%} more memory, beyond the features themselves")
    yield (None, f"{query['seconds']:.1f} s")
    for command in ("ordrank info", "ordrank rank", "ordrank rank, efficientnet-lite0"):
        yield (None, f"{found['start']['seconds'][command]:.2f} s")
    for row in results("search")["search"]:
        single, batch = row["index_times_as_fast_as_plain"], row["batch_times_as_fast_as_single"]
        yield (row["data"], str(row["k"]), f"{single:.1f}", f"{batch:.1f}")


def large_collection_rows():
    """Time and memory by number of pictures, and their log-log slope."""
    found = results("large_collection")
    yield (None, *(f"{row['graded']:,}" for row in found["rows"]), "")
    for form, factor, keys in (
        ("{:.1f} s", 1, ("fit.seconds", "add.seconds", "open.seconds", "rank.seconds", "serve.seconds")),
        ("{:.0f} ms", 1000, ("first_page.seconds",)),
        ("{:.1f} ms", 1, ("query.p50", "query.p99")),
        ("{:,.0f} MB", 1e-6, ("fit.peak_bytes", "add.peak_bytes", "open.peak_bytes")),
    ):
        for key in keys:
            step, unit = key.split(".")
            cells = (form.format(factor * row[step][unit]) for row in found["rows"])
            yield (None, *cells, f"{found['exponents'][key]:.2f}")


def prediction_rows():
    """Predictions with an index of training samples and without one; default fits beside other learners."""
    found = results("prediction")
    for kind in ("batch", "one"):
        indexed, plain = (found["milliseconds"][name][kind] for name in ("index", "no_index"))
        yield (None, f"{indexed:.1f} ms", f"{plain:.1f} ms", f"{found['ratio'][kind]:.1f}")
    digits = found["fits"]["digits"]
    for seconds in (digits, *found["peers"].values()):
        yield (None, f"{seconds:.2f} s", f"{seconds / digits:.1f}")


def page_rows():
    load, page = results("serve"), results("page")
    yield (None, f"{load['one']['requests_per_second']:.0f}")
    yield (None, f"{load['throughput_ratio']:.1f} times as many")
    times = load["many"]["milliseconds"]["all"]
    yield (None, f"{times['p50']:.0f} and {times['p99']:.0f} ms")
    memory, growth = (load["many_again"][f"memory_{name}"] for name in ("bytes", "growth_bytes"))
    yield (None, f"{memory / 1e6:.0f} MB, {growth / memory:.0%}")
    killed = load["killed"]
    yield (
        f"grades lost of {killed['acknowledged_pictures']:,} confirmed, all processes killed twice",
        f"{killed['lost_grades']}",
    )
    yield (None, f"{page['paint']['useful_milliseconds'] / 1000:.1f} s")
    yield (None, f"{page['map']['frames_per_second']:.0f} frames a second")
    slowest = max(times["first_milliseconds_worst"] for times in page["lists"].values())
    yield ("first page of the slowest list, search or spectrum right after a change", f"{slowest:.0f} ms")
    alive, killed = (results("grading")[name] for name in ("server_alive", "server_killed"))
    rates = (f"{run['grades_per_second']:.0f}" for run in (alive, killed))
    yield ("grades given by key a second; with the server killed half-way", " and ".join(rates))
    yield ("grades of these that were lost", f"{alive['lost_grades'] + killed['lost_grades']}")


def cluster_rows():
    units = {"rounds": (1e3, "ms"), "tasks": (1e3, "ms"), "merged": (1e6, "µs")}
    found = results("cluster_scale")
    for phase, rates in found["seconds_of_a_unit"].items():
        scales = {kind: units.get(kind, (1e9, "ns")) for kind in rates}
        parts = (f"{kind} {rates[kind] * scale:.3g} {unit}" for kind, (scale, unit) in scales.items() if rates[kind])
        yield (phase, ", ".join(parts))
    for row in (row for part in found["large"].values() for row in part):
        local = (str(row[key]) if row["map"] == "local term" else "" for key in ("components", "neighbors"))
        sizes = row["map"], f"{row['rows']:,}", str(row["features"]), str(row["shards"]), *local
        for phase, seconds in row["seconds"].items():
            yield (*sizes, phase, f"{seconds:.2g} s", f"{row['predicted_over_measured'][phase]:.2f}")
    for phase, parts in found["billion"]["seconds"].items():
        yield (phase, *(f"{parts[name]:,.0f} s" for name in ("tasks", "workers", "storage")))
    for name in ("single", "batch of 100"):
        query = results("cluster")["query"][name]
        milliseconds = (f"{1e3 * query['seconds'][who]:.1f} ms" for who in ("one process, two threads", "two workers"))
        yield (None, *milliseconds, f"{query['ratio']:.2f}")


def cluster_figures():
    """Figures in the text of the document with the tables of the cluster."""
    found, scale = results("cluster"), results("cluster_scale")
    for name in ("memory", "spilling"):
        yield f"{found[name]['seconds']:.1f} s"
        yield f"{max(found[name]['peak_of_workers']) / 1e6:.0f} MB"
    yield f"{max(found['memory']['peak_at_rest']) / 1e6:.0f} MB for Python and packages"
    yield f"{found['spilling']['written_to_disk'] / 1e9:.1f} GB"
    yield f"{min(found['overhead']['ratios']):.2f} to {max(found['overhead']['ratios']):.2f}"
    yield f"{found['overhead']['ratio']:.2f}"
    yield f"{found['query']['seconds_to_read_and_index']['two workers']:.1f} s"
    rows = (*scale["small"], *scale["large"]["linear"])
    largest, smaller = (next(row for row in rows if row["rows"] == n) for n in (10**7, 10**5))
    for row in (largest, smaller):
        yield f"{row['worker_memory'] / 1e6:.0f} MB"
    yield f"grew by {largest['client_growth'] / 1e6:.0f} and {smaller['client_growth'] / 1e6:.0f} MB"
    many_shards = max(scale["small"], key=lambda row: row["shards"])
    growth, shards = many_shards["client_growth"], many_shards["shards"]
    yield f"grew by {growth / 1e6:.0f} MB in fits of {shards} shards"
    yield f"{growth / shards * 10_000 / 1e9:.1f} GB with 10,000"
    for name in ("a_task", "scheduler_and_client"):
        yield f"{scale['tasks'][f'milliseconds_of_{name}']:.2f} ms"


def photo_rows():
    """MAE by features, MAE of other learners on the same features, and shares of pictures of the same person."""
    found = results("photos")
    mae = {(row["data"], row["split"], row["features"], row["model"]): row["mae"] for row in found["rows"]}
    features = ("pixels", "hog", "efficientnet-lite0", "efficientnet-lite2", "auto")
    for row in found["auto_vs_single"]:
        condition = row["data"], row["split"]
        errors = (f"{mae[(*condition, name, 'OrdinalRanker')]:.3f}" for name in features)
        yield (*condition, *errors, f"{row['difference']:+.3f} ± {row['standard_error']:.3f}")
    for row in found["auto_vs_single"]:
        condition = row["data"], row["split"]
        for name in ("efficientnet-lite2", "auto"):
            models = ("OrdinalRanker", "ridge", "SVR", "LogisticAT", "k-NN")
            errors = (mae.get((*condition, name, model)) for model in models)
            yield (*condition, name, *("–" if error is None else f"{error:.3f}" for error in errors))
    shares = {(row["features"], row["pictures"]): row["share"] for row in found["same_person"]}
    for name in ("pixels", "efficientnet-lite2", "auto"):
        yield (name, *(f"{100 * shares[name, kind]:.1f} %" for kind in ("learned", "within_grade", "euclidean")))


def finetuning_rows():
    """MAE of frozen and fine-tuned features and of the network's outputs, and coverage of the intervals."""
    found = results("compare_photos")["rows"]
    scores = {(row["data"], row["rule"], row["method"]): row["scores"] for row in found}
    for condition, n in {(row["data"], row["rule"]): row["repeats"] for row in found}.items():
        frozen, tuned, outputs = (scores[(*condition, method)] for method in ("frozen", "cmds", "cmds outputs"))
        errors = (f"{of['mae']['mean']:.3f}" for of in (frozen, tuned, outputs))
        coverage = (f"{of['coverage']['mean']:.3f}" for of in (frozen, tuned))
        yield (*condition, str(n), *errors, *coverage)


def loss_rows():
    """MAE of a ranker and of the network's outputs by loss."""
    found = results("compare_photos_losses")
    mae = {(row["data"], row["rule"], row["method"]): row["scores"]["mae"]["mean"] for row in found["rows"]}
    for condition in dict.fromkeys(key[:2] for key in mae):
        pairs = ((mae[(*condition, loss)], mae[(*condition, f"{loss} outputs")]) for loss in found["options"]["losses"])
        yield (*condition, *(f"{ranker:.3f} / {outputs:.3f}" for ranker, outputs in pairs))


def cross_fitting_rows():
    """MAE, leave-one-out MAE and coverage by the features that the ranker is fitted to."""
    for row in results("cross_fitting")["rows"]:
        yield (row["data"], row["features"], *(f"{row[key]:.3f}" for key in ("mae", "loo_mae", "coverage")))


def comparisons_rows():
    """Kendall's τ by the number of comparisons a picture."""
    for row in results("comparisons")["order"]:
        yield (row["answers"], row["pairs"], row["features"], *(f"{tau:.3f}" for tau in row["tau"]))


def comparisons_and_grades_rows():
    """Scores of the default model of 20 grades and comparisons."""
    for row in results("comparisons")["grades"]:
        scores = (f"{row[key]:.3f}" for key in ("mae", "tau", "loo_mae"))
        yield (str(row["comparisons"]), *scores, *(f"{row[key]:.1f}" for key in ("implied", "wrong")))


def active_choice_rows():
    """MAE by strategy and share of the pool that is graded, and with all grades."""
    rows = results("active_choice")["rows"]
    for data, strategy in dict.fromkeys((row["data"], row["strategy"]) for row in rows if row["strategy"] != "all"):
        errors = [row["mae"] for row in rows if (row["data"], row["strategy"]) == (data, strategy)]
        everything = next(row["mae"] for row in rows if (row["data"], row["strategy"]) == (data, "all"))
        yield (data, strategy, *(f"{error:.3f}" for error in (*errors, everything)))
