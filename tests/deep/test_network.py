"""OrdinalNetwork on drawn fruit, with a small untrained network of timm's in place of a pretrained one."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from scipy.spatial.distance import pdist  # noqa: E402
from sklearn.model_selection import GroupKFold  # noqa: E402

from ordrank._protocols import TrainingFiles, no_progress  # noqa: E402
from ordrank.deep import OrdinalNetwork, backbones  # noqa: E402
from ordrank.deep import network as network_module  # noqa: E402
from ordrank.deep.embedding import extract  # noqa: E402
from ordrank.deep.images import AUGMENTATIONS, augment  # noqa: E402
from ordrank.deep.initialization import read_pictures  # noqa: E402
from ordrank.deep.losses import LOSSES, make_loss  # noqa: E402
from ordrank.errors import InputError  # noqa: E402
from ordrank.features import find_extractor  # noqa: E402
from ordrank.neighbors import target_neighbors  # noqa: E402
from tests.deep.stopping import Stop, stop_at  # noqa: E402
from tests.deep.tiny import PREPROCESSING, TINY, tiny_backbone  # noqa: E402
from tests.features.published import published_weights  # noqa: E402

ROOT = Path(__file__).parents[2]


def tuned_features(network, images):
    """Return the features of the network before its linear map."""
    embedding = network.embedding_
    return extract([(embedding.model.backbone, TINY.head)], images, embedding.preprocessing)[0]


class TestFit:
    @pytest.mark.parametrize("loss", [loss for loss in LOSSES if loss != "rank-n-contrast"])
    def test_lowers_the_loss(self, tiny, fruit, loss):
        network = OrdinalNetwork(loss=loss, n_folds=2, steps=100, backbone_rate=1e-3, head_rate=1e-2).fit(*fruit)
        assert [len(losses) for losses in network.losses_] == [100, 100, 100]
        for losses in network.losses_:
            assert np.mean(losses[-10:]) < 0.9 * np.mean(losses[:10])
        assert network.transform(fruit[0][:3]).shape == (3, network.outputs_.shape[1] + TINY.head)
        assert set(network.predict_from_outputs(fruit[0])) <= set(fruit[1])

    def test_rank_n_contrast_orders_the_features(self, tiny, fruit):
        images, grade = fruit
        index = torch.from_numpy(grade)
        loss = make_loss("rank-n-contrast", np.arange(5.0), grade)

        def contrast(steps, rate):
            network = OrdinalNetwork(loss="rank-n-contrast", mu=0, n_folds=1, steps=steps, backbone_rate=rate)
            features = torch.from_numpy(tuned_features(network.fit(images, grade), images))
            return float(loss(loss.targets[index], index, features / features.std()))

        assert contrast(100, 1e-3) < 0.98 * contrast(1, 0)

    def test_is_deterministic(self, tiny, fruit):
        one, other = (OrdinalNetwork(steps=5).fit(*fruit) for _ in range(2))
        assert one.losses_ == other.losses_
        np.testing.assert_array_equal(one.transform(fruit[0]), other.transform(fruit[0]))
        assert OrdinalNetwork(steps=5, random_state=1).fit(*fruit).losses_ != one.losses_

    def test_starts_from_the_ridge_regression(self, tiny, fruit):
        network = OrdinalNetwork(n_folds=1, steps=1, backbone_rate=0, head_rate=1e-12).fit(*fruit)
        images, grade = fruit
        features = torch.from_numpy(tuned_features(network, images))
        torch.testing.assert_close(network.embedding_.model.mean, features.mean(0), atol=1e-4, rtol=1e-4)
        constant = np.abs(np.median(grade) - grade).mean()
        assert np.abs(network.predict_from_outputs(images) - grade).mean() < constant

    def test_batch_statistics_stay(self, tiny, fruit):
        network = OrdinalNetwork(steps=3, backbone_rate=1e-2).fit(*fruit)
        torch.testing.assert_close(network.embedding_.model.backbone._bn0.running_mean, torch.zeros(TINY.stem))

    def test_files_and_arrays_give_the_same(self, tiny, fruit, tmp_path):
        from PIL import Image

        images, grade = fruit
        files = [tmp_path / f"{i}.png" for i in range(20)]
        for file, image in zip(files, images, strict=False):
            Image.fromarray(image).save(file)
        one, other = (
            OrdinalNetwork(steps=3).fit(images[:20], grade[:20]),
            OrdinalNetwork(steps=3).fit(files, grade[:20]),
        )
        np.testing.assert_array_equal(one.transform(images), other.transform(images))

    def test_a_collection_has_files_grades_and_groups(self, tiny, fruit, tmp_path):
        from PIL import Image

        images, grade = fruit
        files = tuple(tmp_path / f"{i}.png" for i in range(30))
        for file, image in zip(files, images, strict=False):
            Image.fromarray(image).save(file)
        groups = np.arange(20) // 2

        class Source:
            def training_files(self):
                return TrainingFiles(files[:20], grade[:20], groups, files[20:])

        one = OrdinalNetwork(steps=3).fit(Source())
        other = OrdinalNetwork(steps=3).fit(files[:20], grade[:20], groups, files[20:])
        np.testing.assert_array_equal(one.predict_proba(images), other.predict_proba(images))

    def test_labels_may_be_named(self, tiny, fruit):
        import pandas as pd

        images, grade = fruit
        names = np.array(["green", "pale", "ripe", "brown", "black"])
        y = pd.Categorical(names[grade.astype(int)], categories=names, ordered=True)
        network = OrdinalNetwork(steps=3).fit(images, y)
        assert set(network.predict(images)) <= set(names)
        assert set(network.predict_from_outputs(images)) <= set(names)

    def test_progress_ends_at_its_total(self, tiny, fruit):
        seen = []
        OrdinalNetwork(steps=4, progress=lambda *event: seen.append(event)).fit(*fruit)
        begins = "training 4 networks with 16 batches in all, about"
        stage = next(stage for stage, *_ in seen if stage.startswith(begins))
        assert [done for name, done, _ in seen if name == stage] == [0, *range(1, 17)]
        assert {total for name, _, total in seen if name == stage} == {0, 16}


class TestFolds:
    def test_outputs_of_training_pictures_are_of_the_network_that_has_not_seen_them(self, tiny, fruit):
        images, grade = fruit
        folds = GroupKFold(3, shuffle=True, random_state=0).split(images, groups=np.arange(len(images)))
        network = OrdinalNetwork(steps=20, backbone_rate=3e-3).fit(images, grade)
        # Labels of pictures that are held out have no influence on their outputs.
        _, held_out = next(folds)
        others = np.setdiff1d(np.arange(len(images)), held_out)
        changed = grade.copy()
        changed[held_out] = np.roll(grade[held_out], 7)
        again = OrdinalNetwork(steps=20, backbone_rate=3e-3).fit(images, changed)
        np.testing.assert_array_equal(network.outputs_[held_out], again.outputs_[held_out])
        assert np.abs(network.outputs_[others] - again.outputs_[others]).max() > 1e-4

    def test_thresholds_do_not_start_from_the_labels_of_held_out_pictures(self, tiny, fruit):
        images, grade = fruit
        folds = GroupKFold(3, shuffle=True, random_state=0).split(images, groups=np.arange(len(images)))
        _, held_out = next(folds)
        changed = grade.copy()
        changed[held_out] = grade.max()
        one, other = (OrdinalNetwork(loss="coral", steps=5).fit(images, y) for y in (grade, changed))
        np.testing.assert_array_equal(one.outputs_[held_out], other.outputs_[held_out])

    def test_groups_are_held_out_together(self, tiny, fruit):
        images, grade = fruit
        copies, labels = np.concatenate([images[:30]] * 2), np.concatenate([grade[:30]] * 2)
        groups = np.tile(np.arange(30), 2)
        outputs = OrdinalNetwork(steps=10, backbone_rate=3e-3).fit(copies, labels, groups).outputs_
        # A copy in another fold would have other outputs.
        np.testing.assert_allclose(outputs[:30], outputs[30:], atol=1e-6)

    def test_the_network_that_is_used_is_trained_on_all_pictures(self, tiny, fruit):
        options = {"steps": 5, "backbone_rate": 1e-2}
        with_folds, alone = (OrdinalNetwork(n_folds=n, **options).fit(*fruit) for n in (3, 1))
        assert (len(with_folds.losses_), len(alone.losses_)) == (4, 1)
        assert with_folds.losses_[-1] == alone.losses_[0]
        outputs = [network.embedding_.outputs(fruit[0]) for network in (with_folds, alone)]
        np.testing.assert_array_equal(*outputs)
        np.testing.assert_array_equal(alone.outputs_, outputs[1])
        assert np.abs(with_folds.outputs_ - outputs[0]).max() > 1e-3

    def test_the_ranker_is_not_surer_than_it_should_be(self, tiny, fruit):
        # Random grades cannot be learned, whatever a network that has seen them says.
        images, grade = fruit
        y = np.random.default_rng(0).permutation(grade)
        rates = {"steps": 300, "backbone_rate": 1e-2, "mu": 0.0, "augmentation": "none"}

        def error(n_folds):
            ranker = OrdinalNetwork(n_folds=n_folds, **rates).fit(images, y).ranker_
            return np.abs(ranker.grade_distribution_.median(ranker.loo_proba_) - y).mean()

        constant = np.abs(np.median(y) - y).mean()
        assert error(1) < 0.9 * constant
        assert error(3) > 0.95 * constant


class TestEmbedding:
    def test_outputs_beside_weighted_pretrained_features(self, tiny, fruit):
        images, grade = fruit
        network = OrdinalNetwork(steps=5, locality=0.5).fit(images, grade)
        backbone = tiny_backbone("tiny")
        frozen = extract([(backbone.module.eval(), TINY.head)], images, backbone.preprocessing)[0]
        s, weight = network.outputs_.shape[1], network.embedding_.weight
        np.testing.assert_allclose(network.transform(images)[:, s:], weight * frozen, rtol=1e-4, atol=1e-5)
        np.testing.assert_array_equal(network.transform(images)[:, :s], network.embedding_.outputs(images))
        np.testing.assert_array_equal(network.features_[:, :s], network.outputs_)

    @pytest.mark.parametrize("locality", [0.0, 0.5, 2.0])
    def test_locality_is_the_ratio_of_root_mean_square_distances(self, tiny, fruit, locality):
        network = OrdinalNetwork(steps=2, locality=locality).fit(*fruit)
        outputs, appearance = np.split(network.features_, [network.outputs_.shape[1]], axis=1)
        assert pdist(appearance, "sqeuclidean").mean() == pytest.approx(
            locality**2 * pdist(outputs, "sqeuclidean").mean(), rel=1e-4
        )

    def test_what_looks_alike_is_found_by_its_appearance(self, tiny, fruit):
        images, grade = fruit
        brighter = np.where(images < 255, images + 1, images).astype(np.uint8)

        def share_found(locality):
            network = OrdinalNetwork(steps=20, backbone_rate=3e-3, locality=locality).fit(images, grade)
            nearest = network.ranker_.rank(network.transform(brighter), k=3).indices
            return (nearest == np.arange(len(images))[:, None]).any(axis=1).mean()

        assert share_found(1.0) > share_found(0.0) + 0.2

    def test_a_fitted_network_stays_where_it_was_trained(self, tiny, fruit):
        network = OrdinalNetwork(steps=2).fit(*fruit)
        expected = network.predict_from_outputs(fruit[0])
        network.set_params(device="cuda")  # of the next fit
        np.testing.assert_array_equal(network.predict_from_outputs(fruit[0]), expected)

    def test_no_pictures(self, tiny, fruit):
        network = OrdinalNetwork(steps=2).fit(*fruit)
        assert network.transform([]).shape == (0, network.features_.shape[1])


class TestLocalTerm:
    def test_keeps_distances_to_target_neighbours(self, tiny, fruit):
        images, grade = fruit
        start = OrdinalNetwork(n_folds=1, steps=1, backbone_rate=0).fit(images, grade)
        before = tuned_features(start, images)
        pairs = target_neighbors(before.astype(float), np.unique(grade, return_inverse=True)[1], 5)

        def change(mu):
            options = {"steps": 80, "backbone_rate": 3e-3, "augmentation": "light"}
            network = OrdinalNetwork(n_folds=1, mu=mu, **options).fit(images, grade)
            after = tuned_features(network, images)
            distances = np.square(after[pairs.first] - after[pairs.second]).sum(1)
            return np.abs(distances - pairs.squared_distances).mean()

        assert change(10.0) < 0.5 * change(0.0)


class TestTime:
    def test_a_limit_lowers_the_number_of_steps(self, tiny, fruit, monkeypatch):
        monkeypatch.setattr(network_module, "seconds_per_step", lambda *args, **options: 2.0)
        network = OrdinalNetwork(n_folds=2, steps=20, minutes=0.5).fit(*fruit)
        assert [len(losses) for losses in network.losses_] == [5, 5, 5]
        monkeypatch.setattr(network_module, "_MIN_STEPS", 2)
        network = OrdinalNetwork(n_folds=2, epochs=4, minutes=0.5).fit(*fruit)
        assert [len(losses) for losses in network.losses_] == [3, 3, 7]  # 5, 5 and 10 without the limit
        network = OrdinalNetwork(n_folds=2, steps=4, minutes=9).fit(*fruit)
        assert [len(losses) for losses in network.losses_] == [4, 4, 4]

    def test_a_limit_below_a_batch_is_named(self, tiny, fruit, monkeypatch):
        monkeypatch.setattr(network_module, "seconds_per_step", lambda *args, **options: 2.0)
        with pytest.raises(InputError, match=r"a batch takes 2\.0 s: 0\.05 minutes are too short"):
            OrdinalNetwork(n_folds=2, minutes=0.05).fit(*fruit)

    def test_a_continued_fit_keeps_its_number_of_steps(self, tiny, fruit, monkeypatch, tmp_path):
        monkeypatch.setattr(network_module, "seconds_per_step", lambda *args, **options: 2.0)
        options = {"n_folds": 2, "steps": 20, "minutes": 0.5, "checkpoints": tmp_path / "state"}
        with pytest.raises(Stop):
            OrdinalNetwork(**options, progress=stop_at(8)).fit(*fruit)
        monkeypatch.setattr(network_module, "seconds_per_step", lambda *args, **options: 5.0)
        assert [len(losses) for losses in OrdinalNetwork(**options).fit(*fruit).losses_] == [5, 5, 5]

    def test_it_is_measured_before_pictures_are_read(self, tiny, fruit):
        stages = []
        OrdinalNetwork(n_folds=1, steps=2, progress=lambda stage, *_: stages.append(stage.split()[0])).fit(*fruit)
        assert list(dict.fromkeys(stages)) == ["measuring", "reading", "training"]

    def test_the_time_of_a_step_is_measured_without_training(self, tiny, fruit):
        limited, free = (OrdinalNetwork(steps=3, minutes=minutes).fit(*fruit) for minutes in (10, None))
        assert limited.losses_ == free.losses_


class TestLength:
    def test_epochs_are_passes_over_the_pictures_within_limits(self, tiny, fruit, monkeypatch):
        monkeypatch.setattr(network_module, "_MIN_STEPS", 2)
        monkeypatch.setattr(network_module, "_MAX_STEPS", 6)
        for epochs, steps in ((0.1, 2), (1.5, 3), (9, 6)):  # 80 pictures, 32 a batch
            network = OrdinalNetwork(n_folds=1, epochs=epochs).fit(*fruit)
            assert [len(losses) for losses in network.losses_] == [steps]
        network = OrdinalNetwork(n_folds=2, epochs=2).fit(*fruit)
        assert [len(losses) for losses in network.losses_] == [2, 2, 5]  # of 40, 40 and 80 pictures
        assert len(OrdinalNetwork(n_folds=1, epochs=9, steps=1).fit(*fruit).losses_[0]) == 1


class TestAugmentation:
    def test_none_leaves_pictures_as_they_are_and_strong_varies_more(self, monkeypatch):
        def variation(strength):
            noise = torch.rand(1, 3, 40, 40, generator=torch.Generator().manual_seed(0)) * 255
            pictures = torch.nn.functional.avg_pool2d(noise, 9, 1).repeat(50, 1, 1, 1)
            varied = augment(pictures, PREPROCESSING, torch.Generator().manual_seed(0), flip=False, strength=strength)
            return float((varied - varied.mean(0)).square().mean())

        variations = [variation(AUGMENTATIONS[name]) for name in ("none", "light", "strong")]
        assert variations[0] < 1e-9
        assert variations[0] < 2 * variations[1] < variations[2]

    def test_without_one_no_picture_is_mirrored(self):
        picture = torch.arange(37.0).expand(8, 3, 37, 37) * 6
        whole = augment(picture, PREPROCESSING, torch.Generator().manual_seed(0), flip=True, strength=0.0)
        assert (whole.diff(dim=3) > 0).all()

    def test_a_fit_uses_it(self, tiny, fruit):
        losses = {
            name: OrdinalNetwork(n_folds=1, steps=2, augmentation=name).fit(*fruit).losses_[0][0]
            for name in AUGMENTATIONS
        }
        assert len(set(losses.values())) == 3


def assert_same_outputs(network, tmp_path, images):
    """Compare with the extractor of the ONNX file."""
    from PIL import Image

    (tmp_path / "network.onnx").write_bytes(network.outputs_to_onnx({"trained on": "fruit"}))
    extractor = find_extractor(f"onnx:{tmp_path / 'network.onnx'}")
    assert extractor.metadata["trained on"] == "fruit"
    found, expected = extractor.extract([Image.fromarray(x) for x in images]), network.embedding_.outputs(images)
    np.testing.assert_allclose(found, expected, atol=1e-3 * np.abs(expected).max())


def test_published_weights_can_be_trained(fruit, tmp_path):
    published_weights("efficientnet-lite0")
    images, _ = fruit
    network = OrdinalNetwork(image_size=64, n_folds=2, steps=2, batch_size=4).fit(images[:10], [0, 1, 2, 3, 4] * 2)
    features = network.transform(images[:2])
    assert features.shape == (2, 3 + 1280)
    assert np.isfinite(features).all()
    assert_same_outputs(network, tmp_path, images[:2])


def test_networks_of_timm_can_be_trained(fruit, tmp_path):
    from tests.features.timm_checkpoints import write_timm_checkpoint

    name = write_timm_checkpoint(tmp_path)
    backbone = backbones.load_backbone(name, 64)
    assert backbone.preprocessing.size == 64
    network = OrdinalNetwork(name, image_size=64, n_folds=2, steps=2, batch_size=4)
    features = network.fit(fruit[0][:10], [0, 1, 2, 3, 4] * 2).transform(fruit[0][:2])
    assert features.shape == (2, 3 + backbone.dim)
    assert_same_outputs(network, tmp_path, fruit[0][:2])


def test_an_image_size_that_a_network_does_not_take_is_named(fruit, tmp_path):
    from tests.features.timm_checkpoints import write_timm_checkpoint

    name = write_timm_checkpoint(tmp_path, model="vit_tiny_patch16_224")
    with pytest.raises(InputError, match=r"takes no pictures of 64 × 64 pixels; it was trained on 224 × 224: leave"):
        OrdinalNetwork(name, image_size=64).fit(fruit[0][:10], [0, 1, 2, 3, 4] * 2)
    assert backbones.load_backbone(name, 224).preprocessing.size == 224


@pytest.mark.parametrize("shape", [(60, 140, 3), (140, 60, 3)], ids=["wide", "tall"])
@pytest.mark.parametrize("resize", ["crop", "stretch"])
def test_a_picture_without_variation_is_what_the_network_sees_at_prediction(monkeypatch, shape, resize):
    from PIL import Image
    from scipy.ndimage import gaussian_filter

    for name in ("_ZOOM", "_ROTATION", "_SHIFT", "_LIGHT"):
        monkeypatch.setattr(f"ordrank.deep.images.{name}", 0.0)
    noise = np.random.default_rng(0).normal(size=shape)
    smooth = gaussian_filter(noise, (12, 12, 0))
    pixels = np.clip(128 + 50 * smooth / smooth.std(), 0, 255).astype(np.uint8)
    preprocessing = replace(PREPROCESSING, resize=resize)
    square = torch.zeros((1, 3, preprocessing.side, preprocessing.side), dtype=torch.uint8)
    read_pictures([pixels], replace(tiny_backbone("tiny"), preprocessing=preprocessing), square, no_progress)
    trained_on = augment(square, preprocessing, torch.Generator(), flip=False).numpy()
    predicted = preprocessing.apply(Image.fromarray(pixels))
    assert np.abs(trained_on - predicted).mean() < 0.05 * predicted.std()
