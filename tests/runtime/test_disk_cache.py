"""The cache on disk: writers at once, broken files, directories that cannot be written, full disks, eviction."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import tempfile
import time
import warnings

import pytest

from refxla.runtime import device_probe, disk_cache
from refxla.runtime.disk_cache import Cache, CacheWarning

KEY = disk_cache.key("a", "test")


def test_what_is_put_is_got(tmp_path):
    store = Cache(tmp_path / "new")
    assert store.get(KEY) is None
    for content in (b"", b"one", os.urandom(100_000)):
        assert store.put(KEY, content)
        assert store.get(KEY) == content
    store.drop(KEY)
    assert store.get(KEY) is None


def test_keys_keep_parts_apart():
    assert (
        len({disk_cache.key("ab", "c"), disk_cache.key("a", "bc"), disk_cache.key("abc"), disk_cache.key("abc", "")})
        == 4
    )


def the_file(directory):
    (path,) = directory.glob("*/*")
    return path


@pytest.mark.parametrize("size", [0, 5, 15, 40, 47, 60])
def test_a_truncated_entry_is_missing(tmp_path, size):
    store = Cache(tmp_path)
    store.put(KEY, b"content that is long enough")
    path = the_file(tmp_path)
    path.write_bytes(path.read_bytes()[:size])
    assert store.get(KEY) is None
    assert not path.exists()
    assert store.put(KEY, b"again") and store.get(KEY) == b"again"


def test_a_changed_byte_is_noticed(tmp_path):
    store = Cache(tmp_path)
    store.put(KEY, b"content")
    path = the_file(tmp_path)
    whole = path.read_bytes()
    for n in range(len(whole)):
        path.write_bytes(whole[:n] + bytes([whole[n] ^ 1]) + whole[n + 1 :])
        assert store.get(KEY) is None


def test_processes_that_write_at_once(tmp_path):
    script = (
        "import sys; from pathlib import Path; from refxla.runtime.disk_cache import Cache, key\n"
        "store = Cache(Path(sys.argv[1])); own = sys.argv[2].encode()\n"
        "for n in range(200):\n"
        "    store.put(key('shared'), own * 50_000)\n"
        "    got = store.get(key('shared'))\n"
        "    assert got is not None and len(set(got)) == 1 and len(got) == 50_000, 'torn'\n"
    )
    children = [
        subprocess.Popen([sys.executable, "-W", "error", "-c", script, str(tmp_path), name]) for name in ("x", "y")
    ]
    assert [child.wait() for child in children] == [0, 0]
    assert [p.suffix for p in tmp_path.glob("*/*")] == [".entry"]  # no temporary files are left


def test_the_least_recently_used_go_first(tmp_path):
    store = Cache(tmp_path, limit=5_000)
    keys = [disk_cache.key(str(n)) for n in range(6)]
    for n, key in enumerate(keys[:4]):
        store.put(key, bytes(1_000))
        past = time.time_ns() - (100 - n) * 10**9
        os.utime(store._path(key), ns=(past, past))
    assert store.get(keys[0]) is not None  # used now
    for key in keys[4:]:
        store.put(key, bytes(1_000))
    assert [store.get(key) is not None for key in keys] == [True, False, False, True, True, True]
    assert store.size() <= 5_000
    assert store.clear() == 4 * 1_047 and store.size() == 0


def test_files_are_counted_once_in_a_while(tmp_path, monkeypatch):
    """By whichever process, each of which has a store of its own."""
    counts = []
    real = Cache._entries
    monkeypatch.setattr(Cache, "_entries", lambda self: counts.append(1) or real(self))
    for n in range(41):  # the first one counts, and then every 10_000 bytes
        Cache(tmp_path, limit=640_000).put(disk_cache.key(str(n)), bytes(1_000))
    assert len(counts) == 1 + 40 // 10
    Cache(tmp_path, limit=640_000).clear()
    assert Cache(tmp_path, limit=640_000).put(KEY, b"content") and len(counts) == 1 + 40 // 10 + 1


def unusable(store):
    """Put and get without an error, with one warning in all."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(3):
            assert not store.put(KEY, b"content")
            store.get(KEY)
    assert [w.category for w in caught] == [CacheWarning]
    assert "REFXLA_CACHE_DIR" in str(caught[0].message)


def test_a_directory_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    unusable(Cache(tmp_path / "file" / "cache"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_directory_that_cannot_be_written(tmp_path):
    tmp_path.chmod(0o500)
    unusable(Cache(tmp_path))


def test_a_full_disk(tmp_path, monkeypatch):
    class Full:
        def __init__(self, handle):
            self.handle = handle

        def __enter__(self):
            return self

        def __exit__(self, *_):
            os.close(self.handle)

        def write(self, data):
            os.write(self.handle, data[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(disk_cache.os, "fdopen", lambda handle, mode: Full(handle))
        unusable(Cache(tmp_path))
    assert not list(tmp_path.glob("*/*"))  # the piece that was written is gone


PROGRAM = """
import sys
import numpy as np
from pathlib import Path
from refxla.codegen.opencl_program import program
from refxla.ir.plan import Argument, Buffer, Kernel, Launch, Plan
from refxla.runtime.devices import find
from refxla.runtime.discovery import pocl_directory
from refxla.runtime.executable import Executable
from refxla_spec.types import Shape
s = Shape.array("f32", (4,))
body = "for (int i = 0; i < 4; ++i) a1[i] = a0[i] * 3.0f;\\n"
kernel = Kernel("k", body, (Argument("input", "float"), Argument("output", "float")), 1)
buffers = (Buffer("x", s, 16, "parameter"), Buffer("y", s, 16, "result"))
device = find(sys.argv[1])
plan = Plan("p", (kernel,), buffers, (Launch(0, (0, 1)),), (s,), (s,))
run = Executable(plan, program((kernel,), device.target), device)
assert run(np.arange(4, dtype=np.float32))[0].tolist() == [0, 3, 6, 9]
directory = pocl_directory()
made = list(directory.glob("??/*/*/*/*.so")) if directory else []  # here
kept = list(directory.glob("*/*/*.so")) if directory else []  # before
print(len(kept), len(made), Path(directory).parent if directory else "")
"""


def run_program(cache_directory):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, "pocl"],
        env={**os.environ, "REFXLA_CACHE_DIR": str(cache_directory)},
        capture_output=True,
        text=True,
        timeout=600,
    )


@pytest.fixture
def known(tmp_path, device):
    """A cache that knows the device and nothing else."""
    _ = device.properties
    name = device_probe.entry(device)
    Cache(tmp_path).put(name, disk_cache.cache().get(name))
    return tmp_path


def test_a_second_process_compiles_nothing(known):
    tmp_path = known
    first = run_program(tmp_path)
    assert first.returncode == 0, first.stderr
    entries = {p: p.stat().st_mtime_ns for p in tmp_path.glob("*/*")}
    assert len(entries) == 2  # the properties of the device, the program
    second = run_program(tmp_path)
    assert second.returncode == 0, second.stderr
    assert first.stdout.split()[1] == "1"  # PoCL may have been given that of another process to open, or made it here
    assert second.stdout.split()[:2] == ["1", "0"]
    assert set(tmp_path.glob("*/*")) == set(entries)
    for text in (first.stdout, second.stdout):
        assert not os.path.exists(text.split()[2])  # the directory of the process went with it


def test_a_broken_entry_of_a_program_is_made_again(known):
    before = set(known.glob("*/*"))
    assert run_program(known).returncode == 0
    (path,) = set(known.glob("*/*")) - before
    whole = path.stat().st_size
    path.write_bytes(path.read_bytes()[:-20])
    again = run_program(known)
    assert again.returncode == 0, again.stderr
    assert path.stat().st_size == whole


def test_programs_run_without_a_cache(tmp_path, device):
    (tmp_path / "file").write_text("")
    result = run_program(tmp_path / "file" / "cache")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("CacheWarning") == 1


def test_the_environment_names_the_directory(monkeypatch, tmp_path):
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path))
    assert disk_cache.cache().directory == tmp_path
    assert disk_cache.cache() is disk_cache.cache()
    disk_cache.cache().put(KEY, b"1")
    assert disk_cache.clear() > 0 and disk_cache.cache().get(KEY) is None
    monkeypatch.delenv("REFXLA_CACHE_DIR")
    assert disk_cache.cache().directory.name == "refxla"
    assert tempfile.gettempdir() not in str(disk_cache.cache().directory)
