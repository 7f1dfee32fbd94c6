"""What lies in the cache is run: nobody but the user may be able to change it, or it is left alone."""

from __future__ import annotations

import os
import pickle
import tempfile
import warnings
from pathlib import Path

import pytest
from refxla_spec.errors import DeviceError

from refxla.compiler import compilation_cache
from refxla.runtime import disk_cache, private_directories, temporary_directories
from refxla.runtime.disk_cache import Cache, CacheWarning
from refxla.runtime.private_directories import NotPrivateError

KEY = disk_cache.key("a", "test")
ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="giving a file to another user takes root")


def entry(directory: Path) -> Path:
    (path,) = directory.glob("*/*")
    return path


def refused(store: Cache, *words: str) -> None:
    """Nothing is read or written, and one warning says why and how to mend it."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            assert store.get(KEY) is None and not store.put(KEY, b"other")
    assert [w.category for w in caught] == [CacheWarning]
    for word in ("is not used", "REFXLA_CACHE_DIR", *words):
        assert word in str(caught[0].message)


def test_what_is_made_is_the_users_alone(tmp_path):
    before = os.umask(0)
    try:
        store = Cache(tmp_path / "a" / "cache")
        assert store.put(KEY, b"content") and store.get(KEY) == b"content"
    finally:
        os.umask(before)
    made = entry(store.directory)
    modes = [p.stat().st_mode & 0o777 for p in (store.directory.parent, store.directory, made.parent, made)]
    assert modes == [0o700, 0o700, 0o700, 0o600]


@pytest.mark.parametrize("which", ["cache", "cache/xx", "."])
@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_a_directory_that_others_may_write_to(tmp_path, which, mode):
    store = Cache(tmp_path / "cache")
    store.put(KEY, b"content")
    place = (tmp_path / which.replace("xx", KEY[:2])).resolve()
    place.chmod(mode)
    refused(store, f"chmod go-w {place}")
    place.chmod(mode & ~0o022)
    assert store.get(KEY) == b"content"


def test_nothing_is_made_in_a_directory_that_others_may_write_to(tmp_path):
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    for directory in (shared, shared / "cache"):
        refused(Cache(directory), f"chmod go-w {shared}")
    assert list(shared.iterdir()) == []


def test_a_sticky_directory_protects_what_is_in_it_and_not_itself(tmp_path):
    store = Cache(tmp_path / "cache")
    tmp_path.chmod(0o1777)
    assert store.put(KEY, b"content") and store.get(KEY) == b"content"
    store.directory.chmod(0o1777)
    refused(store, "chmod go-w")


def test_an_entry_that_others_may_write_to(tmp_path):
    store = Cache(tmp_path / "cache")
    store.put(KEY, b"content")
    entry(store.directory).chmod(0o666)
    with pytest.warns(CacheWarning, match="may have been written by another user"):
        assert store.get(KEY) is None


def test_an_entry_that_is_a_link_or_no_file(tmp_path):
    store = Cache(tmp_path / "cache")
    store.put(KEY, b"content")
    path = entry(store.directory)
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.warns(CacheWarning):
        assert store.get(KEY) is None
    path.unlink()
    os.mkfifo(path)  # opening it would wait for a writer
    again = Cache(store.directory)
    with pytest.warns(CacheWarning, match="not used"):
        assert again.get(KEY) is None


@ROOT_ONLY
@pytest.mark.parametrize("which", ["cache", "cache/xx", "."])
def test_a_directory_of_another_user(tmp_path, which):
    store = Cache(tmp_path / "cache")
    store.put(KEY, b"content")
    place = tmp_path / which.replace("xx", KEY[:2])
    os.chown(place, 4242, -1)
    refused(store, "belongs to another user (number 4242)")


@ROOT_ONLY
def test_an_entry_of_another_user(tmp_path):
    store = Cache(tmp_path / "cache")
    store.put(KEY, b"content")
    os.chown(entry(store.directory), 4242, -1)
    with pytest.warns(CacheWarning, match="another user"):
        assert store.get(KEY) is None


def test_links_are_followed_and_checked(tmp_path):
    real = tmp_path / "real"
    (tmp_path / "link").symlink_to("real")
    (tmp_path / "twice").symlink_to(tmp_path / "link")
    store = Cache(tmp_path / "twice" / "cache")
    real.mkdir()
    assert store.put(KEY, b"content") and store.get(KEY) == b"content"
    real.chmod(0o777)
    refused(store, f"chmod go-w {real}")


def test_links_that_lead_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    with pytest.raises(NotPrivateError, match="links"):
        private_directories.check(tmp_path / "a")


def test_a_user_without_a_home():
    refused(Cache(Path("~/.cache/refxla")), "no home directory")


def test_a_temporary_directory_in_which_others_could_replace_files(monkeypatch, tmp_path):
    """The next one is taken; if there is none, that is an error which says what to do."""
    shared, own = tmp_path / "shared", tmp_path / "own"
    shared.mkdir()
    own.mkdir()
    shared.chmod(0o777)
    monkeypatch.setattr(temporary_directories, "_IN_MEMORY", str(tmp_path / "none"))
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(own))
    assert temporary_directories.scratch().parent == own
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "missing"))
    with pytest.raises(DeviceError, match="other users may write to.*set TMPDIR"):
        temporary_directories.scratch()
    shared.chmod(0o1777)
    assert temporary_directories.scratch().parent == shared


def test_what_another_user_left_in_a_temporary_directory_is_not_touched(monkeypatch, tmp_path):
    target = tmp_path / "precious"
    target.write_text("")
    planted = tmp_path / "refxla-planted"
    planted.mkdir()
    (planted / "lock").symlink_to(target)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    temporary_directories.scratch()
    assert planted.exists()


class Evil:
    def __reduce__(self):
        return os.mkdir, (f"{tempfile.gettempdir()}/evil",)


def test_a_pickle_of_anything_else_is_not_loaded(monkeypatch, tmp_path):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path / "cache"))
    for content in (pickle.dumps(Evil()), pickle.dumps(Path("x")), b"no pickle"):
        disk_cache.cache().put(KEY, content)
        assert compilation_cache.load(KEY) is None and disk_cache.cache().get(KEY) is None
    assert not (tmp_path / "evil").exists()
