"""How much may lie about before Git tidies up by itself."""

import pytest

from gitshadow.maintenance.upkeep import pack_at


@pytest.mark.parametrize(
    ("version", "settings", "files"),
    [
        ((2, 39, 5), {}, 14),
        ((2, 54, 0), {}, 1),
        ((2, 54, 0), {"maintenance.strategy": "gc"}, 14),
        ((2, 54, 0), {"maintenance.geometric-repack.auto": "2560"}, 5),
        ((2, 39, 5), {"gc.auto": "512"}, 1),
        ((2, 39, 5), {"gc.auto": "0"}, 14),
        ((2, 39, 5), {"gc.auto": "-1"}, 14),
        ((2, 39, 5), {"gc.auto": "2k"}, 4),
        ((2, 39, 5), {"gc.auto": "nonsense"}, 14),
        ((2, 39, 5), {"gc.auto": "100000"}, 196),
        ((2, 39, 5), {"maintenance.loose-objects.enabled": "true"}, 1),
        ((2, 39, 5), {"maintenance.loose-objects.enabled": "false"}, 14),
        ((2, 39, 5), {"maintenance.loose-objects.enabled": ""}, 14),
        ((2, 54, 0), {"maintenance.geometric-repack.auto": "-1"}, 1),
        ((2, 52, 0), {"maintenance.strategy": "geometric"}, 1),
    ],
)
def test_half_of_what_git_allows(
    version: tuple[int, ...], settings: dict[str, str], files: int
) -> None:
    """KEEP-03: packed before the user's own commit starts maintenance."""
    assert pack_at(version, settings.get) == files
