"""Losses by name: registered once, complete or refused, found by the names that they declare."""

from dataclasses import dataclass
from typing import ClassVar

import pytest
from soft_hinge import SoftHinge

from dperm.errors import InvalidInput
from dperm.losses import (
    ClippedSquared,
    HuberHinge,
    Linear,
    Logistic,
    Loss,
    Softmax,
    example_losses,
    loss_choices,
    loss_names,
    rebuild_loss,
    register_loss,
    registered_losses,
    registry,
    resolve_loss,
)

OURS = (
    "logistic",
    "soft-clipped-logistic",
    "margin-logistic",
    "hard-clipped-logistic",
    "huber-hinge",
    "squared",
    "soft-clipped-squared",
    "softmax",
    "linear",
)


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    monkeypatch.setattr(registry, "_LOSSES", dict(registry._LOSSES))


def changed(**changes):
    """Soft hinge with something else in its place, as a class of its own."""
    kept = {name: part for name, part in vars(SoftHinge).items() if not name.startswith("__")}
    kept |= {"name": "changed", "__annotations__": {"temperature": float}}
    return dataclass(frozen=True)(type("Changed", (Loss,), kept | changes))


def test_the_library_s_own_losses():
    assert loss_names() == OURS
    assert loss_choices("binary") == ("logistic", "soft-clip", "margin", "hard-clip", "svm")
    assert loss_choices("real") == ("squared", "soft-clip-squared")
    assert {Logistic(), HuberHinge(0.5), ClippedSquared(0.7), Softmax(3), Linear()} <= set(example_losses())
    assert [loss.name for loss in example_losses() if not loss.is_model] == ["linear"]


@pytest.mark.parametrize(
    ("text", "loss"),
    [
        ("logistic", Logistic()),
        ("svm", HuberHinge()),
        ("huber-hinge:width=0.3", HuberHinge(0.3)),
        ("squared:residual_bound=2", ClippedSquared(2.0)),
        ("softmax:n_classes=4", Softmax(4)),
        (HuberHinge(0.7), HuberHinge(0.7)),
    ],
)
def test_names_aliases_settings_and_objects_resolve(text, loss):
    assert resolve_loss(text) == loss


@pytest.mark.together("own_registry")
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("hinge", "no loss is named 'hinge'; choose from logistic, soft-clipped-logistic"),
        ("huber-hinge:wide=0.3", "'wide=0.3' does not set the huber-hinge loss, whose settings are: width"),
        ("huber-hinge:width=a", "does not set"),
        ("softmax:n_classes=2.5", "does not set"),
        ("logistic:width=1", "whose settings are: none"),
        ("huber-hinge:width=-1", "width must be a positive number"),
        (3, "loss must be a name or a loss object such as Logistic\\(\\); got a int"),
        (SoftHinge(), "SoftHinge is not a registered loss"),
    ],
)
def test_what_is_not_a_loss_is_refused(text, why):
    with pytest.raises(InvalidInput, match=why):
        resolve_loss(text)


@pytest.mark.together("own_registry")
@pytest.mark.parametrize("loss", [e for kind in registered_losses() for e in kind.examples()], ids=repr)
def test_a_loss_is_rebuilt_from_its_parameters(loss):
    assert rebuild_loss(loss.name, list(loss.parameters), loss.outputs) == loss
    for name, parameters, outputs in (
        (loss.name, [*loss.parameters, 1.0], loss.outputs),
        (loss.name, loss.parameters, 0),
        ("svm", loss.parameters, loss.outputs),
    ):
        with pytest.raises(InvalidInput):
            rebuild_loss(name, parameters, outputs)


def test_the_loss_of_several_classes_takes_the_place_of_the_logistic_one():
    assert Logistic().for_classes(2) == Logistic()
    assert Logistic().for_classes(5) == Softmax(5)
    assert Softmax(3).for_classes(4) == Softmax(4)
    assert HuberHinge(0.2).for_classes(2) == HuberHinge(0.2)
    for loss, classes in ((HuberHinge(), 3), (ClippedSquared(), 2), (Linear(), 1)):
        with pytest.raises(InvalidInput, match=f"not for {classes} classes"):
            loss.for_classes(classes)


def test_registering_twice_is_one_registration_and_a_taken_name_is_refused():
    assert register_loss(SoftHinge) is SoftHinge
    assert register_loss(SoftHinge) is SoftHinge
    assert loss_names().count("soft-hinge") == 1
    for taken in ({"name": "soft-hinge"}, {"name": "svm"}, {"aliases": ("logistic",)}):
        with pytest.raises(InvalidInput, match="registered already; choose another name"):
            register_loss(changed(**taken))
    assert register_loss(changed()).name == "changed"


def test_a_subclass_of_a_registered_loss_is_refused():
    @dataclass(frozen=True)
    class Like(Logistic):
        name: ClassVar[str] = "like-logistic"

    with pytest.raises(InvalidInput, match="Like derives from the logistic loss"):
        register_loss(Like)


@pytest.mark.together("own_registry")
@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"name": "Soft Hinge"}, "lower-case words"),
        ({"name": "soft:hinge"}, "lower-case words"),
        ({"aliases": ("",)}, "lower-case words"),
        ({"labels": "ordinal"}, "labels must be one of binary, real, classes"),
        ({"slope": Loss.slope}, "it does not define slope"),
        ({"lipschitz": float("inf")}, "lipschitz must be above 0"),
        ({"smoothness": -1.0}, "smoothness at least 0"),
        ({"outputs": 3}, "only a loss over classes has several outputs"),
        ({"examples": classmethod(lambda cls: ())}, "it has no example"),
        ({"parameters": (1.25,)}, "from_parameters does not give back its example"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else None,
)
def test_an_incomplete_class_is_refused(changes, why):
    with pytest.raises(InvalidInput, match=f"Changed cannot be registered as a loss: .*{why}"):
        register_loss(changed(**changes))


def test_what_is_no_frozen_loss_is_refused():
    thawed = type("Thawed", (Loss,), {"name": "thawed"})
    for kind, why in ((dict, "not a subclass of Loss"), (3, "not a subclass"), (thawed, "not a frozen")):
        with pytest.raises(InvalidInput, match=why):
            register_loss(kind)


def install(folder, monkeypatch, target):
    """What pip leaves of a package that declares a loss."""
    info = folder / "my_package-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: my-package\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[dperm.losses]\nmine = soft_hinge:{target}\n")
    monkeypatch.syspath_prepend(folder)
    registry.load_installed.cache_clear()


def test_a_loss_of_an_installed_package_is_known(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "SoftHinge")
    assert resolve_loss("soft-hinge") == SoftHinge()


def test_a_package_that_does_not_load_is_left_out_with_a_warning(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "NoSuchLoss")
    with pytest.warns(RuntimeWarning, match="the loss 'mine' of soft_hinge:NoSuchLoss could not be loaded"):
        assert loss_names() == OURS
