"""Alternates and packs of every form that Git reads: an object in them is never absent."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from gitshadow.errors import StoreError
from gitshadow.model import Oid
from gitshadow.store.backends.following import Engine, open_backend
from gitshadow.store.backends.pack_indexes import PackIndexes
from gitshadow.store.backends.plumbing import PlumbingBackend
from gitshadow.store.backends.port import Backend, alternates
from gitshadow.store.object_format import SHA1
from gitshadow.store.objects import pack_of
from gitshadow.store.packs import Packs
from tests.support.repo import Repo
from tests.support.studio import layout_of


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return Repo.create(tmp_path / "repo")


@pytest.fixture
def lender(tmp_path: Path) -> Repo:
    return Repo.create(tmp_path / 'lender "é"')


def lend(repo: Repo, text: bytes) -> None:
    (repo.git_dir / "objects" / "info").mkdir(exist_ok=True)
    (repo.git_dir / "objects" / "info" / "alternates").write_bytes(text)


@pytest.fixture(params=list(Engine))
def either(repo: Repo, request: pytest.FixtureRequest) -> Iterator[Backend]:
    found = open_backend(layout_of(repo), os.environ, request.param)
    yield found
    found.close()


@pytest.fixture
def backend(repo: Repo) -> Iterator[PlumbingBackend]:
    found = open_backend(layout_of(repo), os.environ, Engine.PLUMBING)
    assert isinstance(found, PlumbingBackend)
    yield found
    found.close()


def blob(repo: Repo, text: str) -> Oid:
    return Oid(repo.git("hash-object", "-w", "--stdin", stdin=text.encode()))


def is_found_by_git(repo: Repo, oid: Oid) -> bool:
    return repo.git("cat-file", "-t", oid, check=False) == "blob"


@pytest.mark.parametrize("form", ["plain", "quoted", "relative", "after a remark"])
def test_path_of_every_form_is_where_git_looks(
    repo: Repo, lender: Repo, backend: PlumbingBackend, form: str
) -> None:
    place = os.fsencode(lender.git_dir / "objects")
    quoted = place.replace(b'"', b'\\"').replace("é".encode(), b"\\303\\251")
    text = {
        "plain": place + b"\n",
        "quoted": b'"' + quoted + b'"\n',
        "relative": os.path.relpath(place, os.fsencode(repo.git_dir / "objects")),
        "after a remark": b"# borrowed\n\n" + place,
    }[form]
    oid = blob(lender, "lent")
    lend(repo, text)
    assert is_found_by_git(repo, oid)
    backend.let_go()
    assert backend.exists(oid)
    assert backend.read(oid) == ("blob", b"lent")


def test_relative_path_begins_where_the_object_directory_really_is(
    repo: Repo, lender: Repo, backend: PlumbingBackend, tmp_path: Path
) -> None:
    """`objects` may be a link, as git-new-workdir makes it."""
    oid = blob(lender, "lent")
    elsewhere = tmp_path / "deep" / "er" / "objects"
    elsewhere.parent.mkdir(parents=True)
    objects = repo.git_dir / "objects"
    objects.rename(elsewhere)
    objects.symlink_to(elsewhere)
    lend(repo, os.fsencode(os.path.relpath(lender.git_dir / "objects", elsewhere)))
    assert is_found_by_git(repo, oid)
    backend.let_go()
    assert backend.read(oid) == ("blob", b"lent")


def test_store_that_is_borrowed_from_later_is_found(
    repo: Repo, lender: Repo, either: Backend
) -> None:
    """`git repack -adl` removes what is borrowed from then on."""
    repo.git("gc", "-q")
    tip, file = Oid(repo.git("rev-parse", "HEAD")), Oid(repo.git("rev-parse", "HEAD:a"))
    assert either.read(tip)[0] == "commit"
    other = blob(lender, "lent")
    lender.git("fetch", "-q", str(repo.root), "HEAD")
    lender.git("repack", "-adq", "--keep-unreachable")
    assert not either.exists(other)
    lend(repo, os.fsencode(lender.git_dir / "objects"))
    repo.git("repack", "-adlq")
    repo.git("prune-packed")
    assert not list((repo.git_dir / "objects" / "pack").glob("*.pack"))
    assert either.exists(file)
    assert either.read(tip)[0] == "commit"
    assert either.read(other) == ("blob", b"lent")
    assert not either.exists(SHA1.blob(b"none"))


def test_circle_of_alternates_ends(repo: Repo, lender: Repo) -> None:
    one, other = (str(each.git_dir / "objects") for each in (repo, lender))
    lend(repo, os.fsencode(f"{other}\n{one}\n"))
    lend(lender, os.fsencode(f"{one}\n{other}/../objects\n"))
    (Path(one) / "loop").symlink_to(".")
    lend(repo, os.fsencode(f"{other}\nloop\n"))
    found = alternates(one)
    assert set(map(os.path.realpath, found)) == {one, other}
    assert len(found) < 4


def test_unreadable_list_is_an_error_and_not_an_empty_one(repo: Repo) -> None:
    place = repo.git_dir / "objects" / "info" / "alternates"
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(place)
    with pytest.raises(StoreError, match="alternates"):
        alternates(str(repo.git_dir / "objects"))


def test_packed_object_is_read_where_its_borrowed_file_is_broken(
    repo: Repo, lender: Repo, backend: PlumbingBackend
) -> None:
    oid = blob(lender, "lent")
    loose = lender.git_dir / "objects" / oid[:2] / oid[2:]
    pack = str(lender.git_dir / "objects" / "pack" / "pack")
    lender.git("pack-objects", "-q", pack, stdin=f"{oid}\n".encode())
    loose.chmod(0o644)
    loose.write_bytes(loose.read_bytes()[:5])
    lend(repo, os.fsencode(lender.git_dir / "objects"))
    backend.let_go()
    assert backend.read(oid) == ("blob", b"lent")


def packed(repo: Repo, version: int) -> tuple[Path, list[Oid]]:
    oids = [blob(repo, str(number)) for number in range(300)]
    pack = str(repo.git_dir / "objects" / "pack" / "pack")
    how = ("pack-objects", "-q", f"--index-version={version}", pack)
    name = repo.git(*how, stdin="".join(f"{oid}\n" for oid in oids).encode())
    repo.git("prune-packed")
    return Path(f"{pack}-{name}.idx"), oids


@pytest.mark.parametrize("version", [1, 2])
def test_index_of_both_versions_is_read(
    repo: Repo, backend: PlumbingBackend, version: int
) -> None:
    _, oids = packed(repo, version)
    assert [backend.is_packed(oid) for oid in oids] == [True] * len(oids)
    assert not backend.is_packed(SHA1.blob(b"none"))
    assert backend.read(oids[7]) == ("blob", b"7")


@pytest.mark.parametrize("version", [1, 2])
def test_index_of_zeros_or_in_disorder_is_an_error_and_not_empty(
    repo: Repo, version: int
) -> None:
    index, oids = packed(repo, version)
    whole = index.read_bytes()
    index.chmod(0o644)
    top = 8 * (version - 1)
    disorder = whole[:top] + b"\0\0\7\0" + whole[top + 4 :]
    for wrong in (bytes(len(whole)), bytes(2000), disorder, whole[:-1], b""):
        index.write_bytes(wrong)
        packs = PackIndexes([str(repo.git_dir / "objects")], SHA1)
        with pytest.raises(StoreError, match="pack index"):
            packs.having(oids[0])


def test_broken_index_hides_no_other_pack(repo: Repo, backend: PlumbingBackend) -> None:
    index, oids = packed(repo, 2)
    broken = index.with_name(f"pack-{'1' * 40}.idx")
    broken.write_bytes(b"")
    broken.with_suffix(".pack").write_bytes(b"junk")
    assert is_found_by_git(repo, oids[0])
    assert backend.read(oids[0]) == ("blob", b"0")
    assert backend.is_packed(oids[1])
    assert backend.may_be_packed(oids[2])
    assert backend.write("blob", b"3") == oids[3]
    new = backend.write("blob", b"new")
    assert is_found_by_git(repo, new)
    # It may be in there.
    with pytest.raises(StoreError, match="broken pack index"):
        backend.exists(SHA1.blob(b"none"))
    repo.damaged = True


def test_more_packs_than_descriptors_are_read(
    repo: Repo, lender: Repo, backend: PlumbingBackend
) -> None:
    """A partial clone gets a pack for each thing that is fetched when it is needed."""
    for number in range(80):
        small = pack_of({SHA1.blob(b"%d" % number): ("blob", b"%d" % number)}, SHA1)
        Packs(str(repo.git_dir / "objects"), str(repo.git_dir / "none")).add(small)
    place = str(lender.git_dir / "objects")
    for number in range(120):
        texts = [b"%d %d" % (number, one) for one in range(2500)]
        many = {SHA1.blob(text): ("blob", text) for text in texts}
        Packs(place, str(repo.git_dir / "none")).add(pack_of(many, SHA1))
    lend(repo, os.fsencode(place))
    backend.let_go()
    before = len(os.listdir("/proc/self/fd"))
    for number in range(80):
        assert backend.may_be_packed(SHA1.blob(b"%d" % number))
    for number in range(0, 120, 10):
        assert backend.may_be_packed(SHA1.blob(b"%d 2499" % number))
        assert not backend.may_be_packed(SHA1.blob(b"%d 2500" % number))
    assert len(os.listdir("/proc/self/fd")) <= before + 100
