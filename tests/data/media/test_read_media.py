"""``fl.read`` of images and sounds: clients, classes, copies, unreadable files, and models that learn from them."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import fedloom as fl
from fedloom.core.errors import FedloomError
from fedloom.tasks.builder import TaskSettings
from fedloom.tasks.own_data import OWN
from support.media_files import write_pitches, write_stripes, write_wave


@pytest.fixture
def stripes(tmp_path: Path) -> Path:
    return write_stripes(tmp_path / "stripes")


def test_a_folder_of_images_is_a_federation(stripes):
    federation = fl.read(stripes)
    assert federation.names == ["ann", "bob"]
    assert federation.class_names == ("across", "along")
    assert federation.columns["x"].shape == (32, 1, 18, 18)
    assert federation.columns["x"].dtype == torch.uint8
    assert "every image becomes 18×18 pixels (height×width), grey" in federation.notes[1]


def test_the_same_folder_gives_the_same_bytes(stripes):
    one, other = fl.read(stripes, seed=3), fl.read(stripes, seed=3)
    assert torch.equal(one.columns["x"], other.columns["x"])
    assert torch.equal(one.train.order, other.train.order)


def test_folders_of_classes_ask_for_clients(stripes):
    for path in (stripes / "ann").rglob("*.png"):
        path.rename(path.with_name(f"c{int(path.stem) % 2}_{path.name}"))
    with pytest.raises(FedloomError) as caught:
        fl.read(stripes / "ann")
    assert "give a folder per client above those of the classes (client/class/FILE), or say" in str(caught.value)
    assert fl.read(stripes / "ann", client_from="(c[0-9])_").names == ["c0", "c1"]
    assert fl.read(stripes / "ann", clients=3).clients == 3


def test_folders_called_like_numbers_are_names_of_classes(stripes):
    for client in ("ann", "bob"):
        (stripes / client / "across").rename(stripes / client / "10")
        (stripes / client / "along").rename(stripes / client / "02")
    assert fl.read(stripes).class_names == ("02", "10")


def test_a_table_of_paths_gives_targets_of_every_kind(stripes):
    files = sorted(path.relative_to(stripes).as_posix() for path in stripes.rglob("*.png"))
    rows = [f"{file};{file.split('/')[1]};{1.5 * number};{file.split('/')[0]}" for number, file in enumerate(files)]
    (stripes / "all.csv").write_text("\n".join(["photo;kind;weight;site", *rows]))
    classes = fl.read(stripes / "all.csv", target="kind", client="site", ignore=["weight"])
    numbers = fl.read(stripes / "all.csv", target="weight", client="site")
    assert classes.class_names == ("across", "along")
    assert numbers.classes == 1
    assert "left out, since the inputs are images: kind" in numbers.notes
    folder = fl.read(stripes / "ann", clients=2, images={"size": 18})
    mine = [place for place, file in enumerate(files) if file.startswith("ann")]
    assert torch.equal(classes.columns["x"][mine], folder.columns["x"])


def test_a_table_of_paths_is_asked_for_its_target_and_its_clients(stripes):
    rows = [f"{path.relative_to(stripes)},{path.parts[-2]},{path.parts[-3]}" for path in sorted(stripes.rglob("*.png"))]
    (stripes / "all.csv").write_text("\n".join(["photo,kind,hospital", *rows]))
    with pytest.raises(FedloomError, match=r"all.csv has no column 'label': say .*: photo, kind, hospital\."):
        fl.read(stripes / "all.csv")
    with pytest.raises(FedloomError, match=r"all.csv has no column 'site': its columns are photo, kind, hospital\."):
        fl.read(stripes / "all.csv", target="kind", client="site")
    with pytest.raises(FedloomError, match=r"--client-column COLUMN \(client=...\); .*'hospital' \(2 values\)"):
        fl.read(stripes / "all.csv", target="kind")
    with pytest.raises(FedloomError, match=r"the column 'kind' cannot have the paths and be the target"):
        fl.read(stripes / "all.csv", target="kind", file_column="kind")


def test_copies_are_never_on_two_sides(stripes):
    for path in sorted((stripes / "ann" / "along").iterdir()):
        shutil.copy(path, stripes / "bob" / "along" / f"copy-{path.name}")
    federation = fl.read(stripes, valid_share=0.2)
    parts = [part.order for part in (federation.train, federation.valid, federation.test)] + [federation.global_test]
    sides = [{bytes(federation.columns["x"][place].numpy()) for place in part.tolist()} for part in parts]
    assert not any(one & other for number, one in enumerate(sides) for other in sides[number + 1 :])
    assert "8 images are a copy of another one: copies are never on two sides of a split" in federation.notes


def test_a_test_image_that_is_a_training_image_is_left_out(tmp_path):
    write_stripes(tmp_path / "s" / "train")
    write_stripes(tmp_path / "s" / "test", count=2)
    draw = np.random.default_rng(9)
    for client in ("ann", "bob"):
        Image.fromarray(draw.integers(0, 256, (16, 16), np.uint8)).save(tmp_path / "s/test" / client / "along/new.png")
    federation = fl.read(tmp_path / "s")
    assert int(federation.test.sizes.sum()) < 10
    assert any(note.endswith("left out: copies of training images") for note in federation.notes)
    tested = {bytes(federation.columns["x"][place].numpy()) for place in federation.test.order.tolist()}
    trained = {bytes(federation.columns["x"][place].numpy()) for place in federation.train.order.tolist()}
    assert not tested & trained


def test_an_unreadable_image_is_refused_or_left_out_as_asked(stripes):
    whole = (stripes / "ann/along/3.png").read_bytes()
    (stripes / "ann/along/3.png").write_bytes(whole[: len(whole) // 2])  # its header can be read
    (stripes / "bob/across/1.png").write_text("no image")
    with pytest.raises(FedloomError) as caught:
        fl.read(stripes)
    assert str(caught.value) == (
        "stripes/bob/across/1.png is not a readable image (it looks like a text): save it again, or remove it "
        "(--skip-unreadable, skip_unreadable=True, leaves such files out)."
    )
    federation = fl.read(stripes, skip_unreadable=True)
    assert len(federation.columns["y"]) == 30
    note = "2 images are left out, since they cannot be read: stripes/bob/across/1.png, stripes/ann/along/3.png"
    assert note in federation.notes
    for path in stripes.rglob("*.png"):
        path.write_bytes(b"no")
    with pytest.raises(FedloomError, match=r"stripes has 0 readable images; stripes/ann/across/0.png is"):
        fl.read(stripes, skip_unreadable=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sounds": {"rate": 8000}}, "sounds={'rate': 8000}: stripes has images: leave it out"),
        ({"file_column": "a"}, "file_column=a: stripes is a folder of images and has no columns"),
        ({"images": {"size": 0}}, "size=0 in images: it must be at least 1"),
        ({"images": {"sise": 8}}, "unknown key in images: 'sise'. Did you mean 'size'?"),
        ({"kind": "labels"}, "stripes: its sub-folders are the classes: leave kind, classes and empty_labels out"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(options, message, stripes):
    with pytest.raises(FedloomError) as caught:
        fl.read(stripes, **options)
    assert message in str(caught.value)


def test_settings_of_files_are_refused_for_other_data(tmp_path):
    (tmp_path / "a.csv").write_text("age,label\n1,a\n2,b\n")
    with pytest.raises(FedloomError, match=r"client_from=\(a\): a.csv has no files of images or sounds: leave it out"):
        fl.read(tmp_path / "a.csv", client_from="(a)")
    with pytest.raises(FedloomError, match=r"client_from=\(a\) is about your own data, but task digits has its own"):
        fl.task("digits", client_from="(a)")


def test_images_that_need_more_than_this_machines_memory_are_refused(stripes, monkeypatch):
    monkeypatch.setattr("fedloom.files.limits.most_data", lambda: 10_000)
    with pytest.raises(FedloomError, match=r"stripes, as 32 images of shape \(1, 18, 18\), has 10,368 bytes"):
        fl.read(stripes)


def test_the_usual_model_follows_from_the_files(stripes, tmp_path):
    (tmp_path / "rows.csv").write_text("age,label\n1,a\n2,b\n")
    write_wave(tmp_path / "sounds" / "a" / "1.wav", np.zeros(2000))
    for path, model in ((stripes, "lenet-small"), (tmp_path / "sounds", "conv1d"), (tmp_path / "rows.csv", "mlp")):
        assert OWN.complete(TaskSettings("own", path=str(path))).model == model


@pytest.mark.parametrize(("write", "shape"), [(write_stripes, (1, 18, 18)), (write_pitches, (40, 33))])
def test_models_learn_to_tell_files_apart(write, shape, tmp_path):
    federation = fl.read(write(tmp_path / "mine", clients=("ann", "bob", "cy"), count=12))
    assert federation.columns["x"].shape[1:] == shape
    runs = fl.compare(fl.task_of(federation), ["fedavg", "local"], rounds=12, seeds=1)
    assert runs["fedavg"][0].last("client_model/own_test/accuracy/mean") > 0.9
