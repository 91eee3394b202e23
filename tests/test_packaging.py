"""The wheel carries what an installation needs without a clone."""

import zipfile
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    target = tmp_path_factory.mktemp("wheel")
    builder = WheelBuilder(str(ROOT))
    (wheel,) = builder.build(directory=str(target), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_wheel_carries_every_hook_file(wheel_names: set[str]) -> None:
    hooks = ROOT / "hooks"
    expected = {
        f"gitshadow/_hooks/{path.relative_to(hooks).as_posix()}"
        for path in hooks.rglob("*")
        if path.is_file()
    }
    assert "gitshadow/_hooks/README.md" in expected
    assert expected <= wheel_names


def test_wheel_is_typed_and_licensed(wheel_names: set[str]) -> None:
    assert "gitshadow/py.typed" in wheel_names
    assert any(name.endswith("/licenses/LICENSE") for name in wheel_names)


def test_wheel_carries_the_package_alone(wheel_names: set[str]) -> None:
    tops = {name.split("/", 1)[0] for name in wheel_names}
    assert tops == {"gitshadow"} | {top for top in tops if top.endswith(".dist-info")}
    assert len(tops) == 2


def test_wheel_carries_the_templates_of_the_page(wheel_names: set[str]) -> None:
    templates = ROOT / "gitshadow" / "render" / "templates"
    expected = {
        f"gitshadow/render/templates/{path.name}" for path in templates.iterdir()
    }
    assert len(expected) == 3
    assert expected <= wheel_names
