"""The front door: what ``import symmetries`` gives, how fast, and in which forms it takes data."""

import importlib
import inspect
import json
import pkgutil
import subprocess
import sys
from collections import defaultdict
from types import FunctionType, SimpleNamespace

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import symmetries
from symmetries import auditing, estimators, learners
from symmetries import data as data_sets
from symmetries._utils.config import presets_of
from symmetries.analysis import classifiers
from symmetries.data import ImageSet, as_image_set, as_images
from symmetries.groups import Cyclic, Group, group_name
from symmetries.learners.orbit_posterior import Network, OrbitConfig, Reading, Training, Views
from symmetries.learners.symmetry_model import SymmetryConfig
from symmetries.results import Record

PACKAGES = (
    *("actions", "analysis", "auditing", "data", "distributions", "estimators", "groups"),
    *("learners", "lie", "monitoring", "nn", "report", "results", "sweeps", "testing", "training"),
    *(f"learners.{part.name}" for part in pkgutil.iter_modules(learners.__path__)),
)
SECONDS = 0.5  # of processor time
SHORT = {"steps": 3, "batch_size": 16}
TINY = SymmetryConfig().replace(widths=(16,), inference=SHORT, generative=SHORT)
ORBIT = OrbitConfig(
    bins=12,
    folds=2,
    views=Views(readings=2),
    network=Network(kind="mlp", features=16),
    training=Training(steps=3, rounds=1, batch_size=16),
    reading=Reading(pictures=64, samples=32, resamples=8),
)


def public():
    """Every public object by name, with the packages that export it."""
    found = defaultdict(dict)
    for package in ("", *PACKAGES):
        module = importlib.import_module(f"symmetries.{package}".rstrip("."))
        for name in getattr(module, "__all__", ()):
            found[name][module.__name__] = getattr(module, name)
    return found


def processor_time(*command):
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True,"
        " stdout=subprocess.DEVNULL); used = resource.getrusage(resource.RUSAGE_CHILDREN);"
        " print(used.ru_utime + used.ru_stime)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def run_python(code):
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done


@pytest.mark.parametrize(
    "command", [("-c", "import symmetries; dir(symmetries)"), ("-m", "symmetries", "--help")]
)
def test_the_door_opens_fast(command):
    times = [processor_time(sys.executable, *command) for _ in range(3)]
    assert min(times) < SECONDS


def test_nothing_heavy_is_imported_before_it_is_used():
    code = "import sys, symmetries; symmetries.__all__; sys.exit('torch' in sys.modules)"
    run_python(code)
    code = (
        "import sys, symmetries.analysis.orbits, symmetries.training;"
        " heavy = {'lightning_fabric', 'torchmetrics', 'sklearn', 'matplotlib', 'torch._dynamo'};"
        " sys.exit(', '.join(heavy & set(sys.modules)) or 0)"
    )
    run_python(code)


def test_about_forty_names_and_no_others():
    assert 35 <= len(symmetries.__all__) <= 52
    assert set(symmetries.__all__) <= set(dir(symmetries))
    with pytest.raises(AttributeError, match="has no attribute 'Rotation'"):
        _ = symmetries.Rotation


def test_no_two_public_things_share_a_name():
    for name, places in public().items():
        assert len({id(thing) for thing in places.values()}) == 1, (name, list(places))


def test_every_public_thing_says_what_it_is():
    for name, places in public().items():
        thing = next(iter(places.values()))
        if inspect.isclass(thing) or inspect.isroutine(thing):
            text = inspect.getdoc(thing) or ""
            assert text.split("\n")[0].rstrip(" .\"'"), name


def test_faces_of_scikit_learn_are_named_as_such():
    for name in estimators.__all__:
        if inspect.isclass(getattr(estimators, name)):
            assert name.endswith(("Estimator", "Classifier", "Regressor")), name


# Groups by name: the name that suits a callable, and its other arguments.
IMAGES = torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(0))
LABELS = torch.arange(6) % 3
NET = nn.Sequential(nn.Flatten(), nn.Linear(64, 3))
SMALL = {"features": 8, "steps": 2, "batch_size": 8}
ATOM = SimpleNamespace(positions=np.ones((1, 3)))
ATOM.copy = lambda: SimpleNamespace(positions=ATOM.positions)
BY_NAME = {
    "ColourAction": ("hue", {}),
    "ConditionalCategorical": None,  # takes an order
    "FieldBatchNorm2d": ("c4", {"fields": 2}),
    "FieldNorm2d": ("c4", {"fields": 2}),
    "GroupConv2d": ("c4", {"in_channels": 1, "out_channels": 2, "kernel_size": 3}),
    "GroupPool": ("d4", {}),
    "ImageAction": ("rotation", {}),
    "InvariantClassifier": ("rotation", SMALL),
    "InvariantRegressor": ("rotation", SMALL),
    "InvariantVAE": ("rotation", {"shape": (1, 16, 16), "config": "quick"}),
    "LiftingConv2d": ("c4", {"in_channels": 1, "out_channels": 2, "kernel_size": 3}),
    "NodeAction": ("so3", {"layout": ("point", "vector")}),
    "PermutationAction": ("s4", {}),
    "PointAction": ("rotation", {}),
    "RelaxedClassifier": ("c4", {}),
    "RelaxedGroupConv2d": ("c4", {"in_channels": 1, "out_channels": 2, "kernel_size": 3}),
    "SequenceAction": ("flip_x", {}),
    "SignalAction": ("shift", {}),
    "Symmetry": ("c4", {}),
    "SymmetryEstimator": ("rotation", {}),
    "SymmetryModel": ("rotation", {"shape": (1, 8, 8), "config": "quick"}),
    "TiedConv2d": ("c4", {"in_channels": 1, "features": 2, "kernel_size": 3}),
    "UniformBox": ("rotation", {}),
    "VolumeAction": ("so3", {}),
    "act_on_fields": ("c4", {"element": torch.tensor(1), "x": torch.rand(1, 4, 5, 5)}),
    "as_group": ("c4", {}),
    "assert_group": ("c4", {"etas": torch.arange(4)[:, None]}),
    "audit": ("c4", {"model": NET, "data": (IMAGES, LABELS), "progress": False}),
    "audit_energies": ("so3", {"model": lambda atom: 0.0, "structures": [ATOM, ATOM]}),
    "audit_model": ("c4", {"model": NET, "data": (IMAGES, LABELS), "progress": False}),
    "discover": None,  # trains; below
    "distribution_invariance": ("c4", {"model": NET, "x": IMAGES}),
    "drift_curve": (
        "c4",
        {"model": NET, "first": IMAGES, "second": IMAGES, "y": LABELS, "betas": (1.0,), "steps": 2},
    ),
    "find_subgroup": None,  # takes names only
    "fit": None,  # trains; below
    "group_error": ("c4", {"etas": torch.arange(4)[:, None]}),
    "group_name": None,  # from a group to its name
    "group_permutations": ("c4", {"channels": 2}),
    "layer_equivariance": ("c4", {"model": NET, "x": IMAGES}),
    "layer_contributions": ("c4", {"model": NET, "x": IMAGES}),
    "lie_derivative": ("rotation", {"model": NET, "x": IMAGES}),
    "logit_invariance": ("c4", {"model": NET, "x": IMAGES}),
    "orbit": ("rotation", {"data": IMAGES, "progress": False}),
    "pixel_permutations": ("c4", {"shape": (1, 4, 4)}),
    "regularised_loss": ("c4", {"model": NET, "x": IMAGES, "y": LABELS, "nu": 0.1}),
    "relax_convolutions": ("c4", {"model": nn.Conv2d(1, 4, 3)}),
    "saliency_similarity": ("c4", {"model": NET, "x": IMAGES}),
    "shallow_model": ("rotation", {"shape": (1, 8, 8), "outputs": 3, "features": 8}),
    "tie": ("c4", {"layer": nn.Conv2d(1, 2, 3)}),
    "transforming": None,  # takes names only
    "wrap": None,  # trains; tests/test_wrap.py
}


def takes_a_group():
    for name, places in public().items():
        thing = next(iter(places.values()))
        skipped = inspect.isclass(thing) and issubclass(thing, Record | Exception)
        if not isinstance(thing, type | FunctionType) or skipped:
            continue
        if "group" in inspect.signature(thing).parameters:
            yield name, thing


def test_everything_that_takes_a_group_is_known_here():
    assert {name for name, _ in takes_a_group()} <= set(BY_NAME)


@pytest.mark.parametrize("name", [name for name, case in BY_NAME.items() if case])
def test_everything_that_takes_a_group_takes_its_name(name):
    thing = next(iter(public()[name].values()))
    group, arguments = BY_NAME[name]
    place = "group" if "group" in inspect.signature(thing).parameters else "action"
    made = thing(**{place: group}, **arguments)
    held = getattr(made, "group", None)
    if isinstance(made, symmetries.Action | nn.Module) and held is not None:
        assert isinstance(held, Group)


def test_a_name_gives_what_the_group_gives():
    by_name = symmetries.logit_invariance(NET, IMAGES, "c4")
    assert by_name == symmetries.logit_invariance(NET, IMAGES, Cyclic(4))
    for action, name in (("ImageAction", "rotation"), ("ColourAction", "hue")):
        assert group_name(getattr(symmetries, action)(name).group) == name


def forms():
    """The same images in every form."""
    yield "tensor", IMAGES
    yield "array", IMAGES.numpy()
    yield "image set", ImageSet(IMAGES, LABELS)
    yield "loader", DataLoader(TensorDataset(IMAGES, LABELS), batch_size=4)
    yield "loader without labels", DataLoader(IMAGES, batch_size=4)


def test_labels_that_are_not_read_may_be_anything():
    names = ["cat", "dog"] * (len(IMAGES) // 2) + ["dog"] * (len(IMAGES) % 2)
    for labels in (names, np.array(names), [None] * len(IMAGES)):
        assert torch.equal(as_images((IMAGES.numpy(), labels)), IMAGES)


@pytest.mark.parametrize(
    ("kind", "data"), list(forms()), ids=lambda v: v if isinstance(v, str) else ""
)
def test_images_come_in_every_form(kind, data):
    torch.testing.assert_close(as_images(data), IMAGES, atol=0, rtol=0)
    torch.testing.assert_close(as_image_set(data).images, IMAGES, atol=0, rtol=0)
    assert (as_image_set(data).labels is None) == (kind not in ("image set", "loader"))
    expected = symmetries.logit_invariance(NET, IMAGES, "c4")
    assert symmetries.logit_invariance(NET, data, "c4") == expected
    assert symmetries.layer_equivariance(NET, data, "c4")[0].name == "0"
    model = symmetries.SymmetryModel("rotation", (1, 8, 8), TINY)
    model.fit(data, progress=False, device="cpu")
    assert model.summary(data, n=8).images == 6
    assert symmetries.orbit(data, "rotation", progress=False).data.count == 6


MEASURES = {
    "background": data_sets.background,
    "coloured": lambda x: data_sets.coloured(x).images,
    "rotated": lambda x: data_sets.rotated(x, 30).images,
    "scaled": lambda x: data_sets.scaled(x).images,
    "translated": lambda x: data_sets.translated(x).images,
    "distribution_invariance": lambda x: auditing.distribution_invariance(NET, x, "c4"),
    "drift_curve": lambda x: auditing.drift_curve(
        NET, x, x, LABELS, "c4", betas=(1.0,), gradients=False
    ),
    "integrated_gradients": lambda x: auditing.integrated_gradients(NET, x, LABELS, steps=2),
    "largest_singular_value": lambda x: auditing.largest_singular_value(NET, x),
    "layer_contributions": lambda x: auditing.layer_contributions(NET, x, "c4"),
    "lie_derivative": lambda x: auditing.lie_derivative(NET, x, "rotation"),
    "saliency_map": lambda x: auditing.saliency_map(NET, x, LABELS, steps=2),
    "saliency_similarity": lambda x: auditing.saliency_similarity(NET, x, "c4"),
}


@pytest.mark.parametrize("name", MEASURES)
def test_every_measure_takes_images_in_every_form(name):
    expected, *others = (MEASURES[name](data) for _, data in forms())
    for found in others:
        same = torch.equal(found, expected) if isinstance(found, torch.Tensor) else None
        assert found == expected if same is None else same


@pytest.mark.parametrize("data", [3, "digits", None, {"images": IMAGES}])
def test_other_forms_are_refused_with_those_that_work(data):
    with pytest.raises(TypeError, match="an ImageSet, a DataLoader, or a pair"):
        as_images(data)


@pytest.mark.parametrize(
    "data",
    [
        (IMAGES, LABELS),
        (IMAGES.numpy(), LABELS.numpy()),
        ImageSet(IMAGES, LABELS),
        DataLoader(TensorDataset(IMAGES, LABELS), batch_size=4),
    ],
    ids=["tensors", "arrays", "image set", "loader"],
)
def test_labelled_images_come_in_every_form(data):
    expected = symmetries.audit_model(NET, (IMAGES, LABELS), "c4", steps=2, progress=False)
    found = symmetries.audit_model(NET, data, "c4", steps=2, progress=False)
    assert found.model_dump(exclude={"seconds"}) == expected.model_dump(exclude={"seconds"})
    whole = symmetries.audit(NET, data, "c4", progress=False)
    assert whole.logit_invariance == expected.logit_invariance
    assert whole.run.command.startswith("symmetries.audit(")


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setitem(classifiers.INVARIANT_PRESETS, "quick", SMALL | {"steps": 4})
    monkeypatch.setitem(presets_of(SymmetryConfig), "quick", TINY)
    monkeypatch.setitem(presets_of(OrbitConfig), "quick", ORBIT)
    monkeypatch.setattr("symmetries.learners.orbit_posterior.rounds.LOOKED_AT", 64)


@pytest.fixture
def command(tmp_path, monkeypatch, small):
    """Run a command here and return its JSON."""
    from typer.testing import CliRunner

    from symmetries.cli import app

    monkeypatch.chdir(tmp_path)
    some = symmetries.load("digits").subset(range(80))
    np.savez("some.npz", images=some.images[:, 0].numpy(), labels=some.labels.numpy())

    def run(*arguments):
        done = CliRunner().invoke(app, [*arguments, "--quiet", "--json", "--device", "cpu"])
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return run


def numbers(result):
    """Everything but how and when."""
    content = result if isinstance(result, dict) else json.loads(result.model_dump_json())
    return {key: content[key] for key in content if key not in ("run", "seconds", "model")}


OPTIONS = {"progress": False, "device": "cpu"}


def test_orbit_is_what_the_command_does(command):
    found = symmetries.orbit("some.npz", "rotation", **OPTIONS)
    assert numbers(found) == numbers(command("orbit", "some.npz", "--group", "rotation"))


@pytest.mark.parametrize("method", ["orbit", "two-stage"])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_discover_and_augment_are_what_the_commands_do(command, tmp_path, method):
    found = symmetries.discover("some.npz", "rotation", method=method, **OPTIONS)
    words = ["--group", "rotation", "--method", method, "--out", "found"]
    expected = command("discover", "some.npz", *words)
    assert numbers(found) == numbers(expected)
    assert found.method == method
    command("augment", "found", "some.npz", "--copies", "2", "--out", "more.npz")
    more = symmetries.augment(found, "some.npz", 2, **OPTIONS)
    again = symmetries.augment(tmp_path / "found", "some.npz", 2, **OPTIONS)
    written = np.load(tmp_path / "more.npz")
    assert np.array_equal((more.images[:, 0] * 255).round().byte().numpy(), written["images"])
    assert torch.equal(more.images, again.images)
    assert np.array_equal(more.labels.numpy(), written["labels"])


def test_fit_and_audit_are_what_the_commands_do(command):
    found = symmetries.fit("some.npz", "rotation", **OPTIONS)
    assert numbers(found) == numbers(command("fit", "some.npz", "--out", "found"))
    options = ["audit", "found", "some.npz", "--examples", "8", "--drift-to", "some.npz"]
    expected = command(*options, "--out", "audited")
    audited = symmetries.audit(found.fitted, "some.npz", examples=8, drift_to="some.npz", **OPTIONS)
    assert numbers(audited) == numbers(expected)
    stored = symmetries.audit("found/model", "some.npz", examples=8, **OPTIONS)
    assert stored.accuracy == audited.accuracy


def test_a_fit_is_measured_on_images_that_are_given(small):
    digits = symmetries.load("digits")
    found = symmetries.fit(digits, test=digits.subset(range(30)), **OPTIONS)
    assert (found.examples, found.data.count) == (30, len(digits))


def test_warnings_of_a_discovery_are_python_s_and_the_result_s(small):
    digits = symmetries.load("digits").subset(range(80))
    with pytest.warns(RuntimeWarning) as said:
        found = symmetries.discover(digits, "rotation", check=False, **OPTIONS)
    assert found.warnings
    assert [str(one.message) for one in said] == list(found.warnings)
    assert found.check is None
    assert "check=False" in found.run.command
    assert symmetries.discover.__kwdefaults__["method"] == "orbit"


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_new_versions_come_from_the_fit_that_has_not_seen_the_picture(small, tmp_path):
    from symmetries.analysis.augmentation import unseen_folds

    digits = symmetries.load("digits").subset(range(80))
    found = symmetries.discover(digits, "rotation", check=False, **OPTIONS)
    folds = unseen_folds(found, found.fitted, digits)
    assert torch.equal(folds, found.fitted.folds(80))
    assert unseen_folds(found, found.fitted, digits.subset(range(70))) is None
    assert unseen_folds(found.fitted, found.fitted, digits) is None
    found.fitted.save(tmp_path / "model")
    assert unseen_folds(tmp_path, found.fitted, digits) is None
    found.save(tmp_path / "symmetries.json")
    for folder in (tmp_path, tmp_path / "model"):
        assert torch.equal(unseen_folds(folder, found.fitted, digits), folds)
    (tmp_path / "symmetries.json").write_text("{")
    assert unseen_folds(tmp_path, found.fitted, digits) is None
    versions = symmetries.augment(found.fitted, digits, 3, **OPTIONS)
    assert versions.images.shape == (240, 1, 8, 8)


def test_results_of_the_first_schema_are_read(small, tmp_path):
    digits = symmetries.load("digits").subset(range(80))
    found = symmetries.discover(digits, "rotation", method="two-stage", **OPTIONS)
    content = json.loads(found.model_dump_json())
    for name in ("warnings", "method", "check"):
        del content[name]
    for part in content["transformations"]:
        for name in ("interval", "share_told", "deciles", "widths", "calibration"):
            del part[name]
    path = tmp_path / "old.json"
    path.write_text(json.dumps(content | {"schema": "symmetries.discover/1"}))
    old = type(found).load(path)
    assert (old.method, old.schema_name, old.warnings) == ("two-stage", "symmetries.discover/2", ())
    assert old.transformations == found.transformations
    assert "Transformation by transformation" in old.to_html()
