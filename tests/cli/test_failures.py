"""Everything that can go wrong around a command: one message, an exit status, nothing half-written."""

import errno
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from command_line import EXAMPLES, SMALL

STEP = EXAMPLES / "mlp" / "step.hlo"


@pytest.mark.parametrize(
    "arguments, words",
    [
        ([], ["name a command", "refxla --help"]),
        (["frobnicate"], ["frobnicate", "'run'"]),
        (["show"], ["FILE", "refxla show --help"]),
        (["show", "{file}", "--plan", "--opencl"], ["not allowed with"]),
        (["show", "{file}", "--color"], ["--color"]),
        (["show", "{file}", "--optim"], ["arguments: --optim; did you mean '--optimized'?", "refxla show --help"]),
        (["run", "{file}", "--repaet=2"], ["--repaet=2; did you mean '--repeat'?"]),
        (["--verion"], ["--verion; did you mean '--version'?"]),
        (["show", "{file}", "--after", "magic"], ["no pass 'magic'", "call-inliner"]),
        (["show", "{file}", "--plan", "--device", "toaster"], ["'toaster'", "pocl"]),
        (["show", "{file}", "--plan", "--device", "reference"], ["no plan"]),
        (["run", "{file}", "--random", "one"], ["--random", "'one'"]),
        (["run", "{file}", "--random", "0", "--device", "toaster"], ["'toaster'", "pocl"]),
        (["verify", "absent.hlo"], ["cannot read absent.hlo", "No such file"]),
        (["verify", "{folder}"], ["Is a directory"]),
        (["verify", "nul\0.hlo"], ["cannot read"]),
        (["convert", "{file}", "{folder}"], ["text or a proto"]),
        (["convert", "{file}", "{folder}", "--to", "text"], ["cannot write", "directory"]),
        (["convert", "{file}", "{folder}/absent/x.pb"], ["cannot write", "No such file"]),
        (["convert", "{file}", "/proc/x.pb"], ["cannot write /proc/x.pb"]),
        (["convert", "{file}", "x.bin"], ["--to"]),
    ],
)
def test_a_command_that_is_wrong(refxla, program, tmp_path, arguments, words):
    error = refxla(*(a.format(file=program(), folder=tmp_path) for a in arguments)).error
    for word in words:
        assert word in error


def test_an_abbreviated_option_does_nothing(refxla, monkeypatch):
    monkeypatch.setattr("refxla.cli.commands.cache", lambda options: pytest.fail("the command ran"))
    assert "--clea; did you mean '--clear'?; see refxla cache --help" in refxla("cache", "--clea").error


def test_an_empty_program(refxla, program, child):
    assert "is empty" in refxla("verify", program("  \n")).error
    assert "standard input is empty" in child("verify", "-", input="").error


def test_a_folder_that_cannot_be_written(program, child, tmp_path):
    folder = tmp_path / "closed"
    folder.mkdir()
    folder.chmod(0o500)
    if os.access(folder, os.W_OK):
        pytest.skip("root writes everywhere")
    assert "Permission denied" in child("convert", program(), folder / "x.pb").error


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
def test_a_full_disk(child, program):
    with open("/dev/full", "wb") as full:
        assert "the disk is full" in child("show", STEP, stdout=full).error
        assert "the disk is full" in child("verify", STEP, stdout=full).error
    assert "No space left" in child("convert", program(), "/dev/full", "--to", "text").error


def test_a_result_that_does_not_fit_leaves_nothing_behind(program, tmp_path):
    """The file may have 4 KiB, the proto has more: what was there stays, and no piece of the new one."""
    out = tmp_path / "out.pb"
    out.write_bytes(b"old")

    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))

    command = [sys.executable, "-B", "-m", "refxla", "convert", str(STEP), str(out)]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=limit, check=False)
    assert done.returncode == 2 and os.strerror(errno.EFBIG) in done.stderr
    assert out.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["out.pb"]


@pytest.mark.parametrize("command", ["show", "verify", "explain"])
def test_a_reader_that_goes_away_ends_the_command_quietly(child, program, command):
    reading, writing = os.pipe()
    os.close(reading)
    result = child(command, program(), stdout=writing)
    os.close(writing)
    assert result.status == 141 and result.err == ""


def test_closed_streams_are_no_fault(program):
    command = f"{sys.executable} -m refxla verify {program()} >&- 2>&-; echo $?"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() in ("0", "2")
    command = f"{sys.executable} -m refxla verify {program()} >&-"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == "refxla: error: standard output is closed\n"
    command = f"{sys.executable} -m refxla verify - <&-; echo $?"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "2" and "standard input" in done.stderr and "Traceback" not in done.stderr


def test_ctrl_c_ends_a_long_run(tmp_path):
    """An endless loop, on the device and in the reference."""
    text = """HloModule endless
body {
  ROOT s = f32[] parameter(0)
}
condition {
  t = f32[] parameter(0)
  z = f32[] constant(0)
  ROOT more = pred[] compare(t, z), direction=GE
}
ENTRY e {
  x = f32[] constant(1)
  ROOT w = f32[] while(x), condition=condition, body=body
}
"""
    pipe = tmp_path / "program.hlo"
    os.mkfifo(pipe)
    for device in ("pocl", "reference"):
        command = [sys.executable, "-m", "refxla", "run", str(pipe), "--device", device]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        pipe.write_text(text)  # waits until the command has started and reads it
        time.sleep(1)
        assert process.poll() is None, process.stderr.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=300) == 130
        # An interrupted OpenCL compiler may have said something first.
        assert process.stderr.read().decode().endswith("refxla: error: interrupted\n")


WHILE_IMPORTED = """
import os, runpy, signal, sys

class Interrupting:
    def find_spec(self, name, *_):
        if name == sys.argv[2]:
            sys.meta_path.remove(self)
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
runpy.run_module(sys.argv[1], run_name="__main__", alter_sys=False)
"""


@pytest.mark.parametrize("module", ["refxla", "refxla_conformance"])
@pytest.mark.parametrize("imported", ["refxla_spec.lexer", "numpy", "rich.console"])
def test_ctrl_c_while_modules_are_imported(module, imported):
    command = [sys.executable, "-c", WHILE_IMPORTED, module, imported]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, f"{module.replace('_', '-')}: error: interrupted\n")


INTERRUPTED = """
import sys
from refxla.cli import commands, main
commands.load = lambda *_, **__: exec("raise KeyboardInterrupt")
sys.exit(main.main(["verify", "x"]))
"""


def test_an_interruption_is_an_exit_status_wherever_it_comes(tmp_path):
    """Also while Python runs a text, as it does when a module with dataclasses is imported."""
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(tmp_path), *sys.path))}
    done = subprocess.run([sys.executable, "-m", "interrupted"], capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (130, "refxla: error: interrupted\n")


def test_a_terminal_that_knows_no_unicode(child, program):
    result = child("explain", program(), env={"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"})
    assert result.status == 0 and "small" in result.out


def test_a_fault_of_refxla_is_said_to_be_one(refxla, program, monkeypatch):
    from refxla.cli import commands

    monkeypatch.setattr(commands, "check_rules", lambda module: {}["key"])
    error = refxla("verify", program()).error
    assert "a fault of refxla itself, KeyError" in error and "REFXLA_TRACEBACK=1" in error


def test_input_that_is_cut_names_the_line(refxla, program):
    error = refxla("verify", program(SMALL[:-60])).error
    assert "program.hlo: line " in error and "^" in error


def test_a_program_that_breaks_a_rule_is_a_check_that_fails(refxla, program):
    broken = program("x = f32[2] parameter(0)\nROOT y = f32[3] negate(x)")
    result = refxla("verify", broken)
    assert result.status == 1 and result.err.startswith("refxla: error: ") and "negate_c2" in result.err
    assert refxla("run", broken, "--random", "0").status == 2


def test_options_that_contradict_what_they_are_given_with(refxla, program, tmp_path):
    assert "for executables of" in refxla("run", program(), "--random", "0", "--no-machine-code").error
    error = refxla("convert", program(), str(tmp_path / "out.hlo"), "--to", "proto").error
    assert error.startswith("--to proto: ") and "out.hlo is text by its suffix" in error
    assert not (tmp_path / "out.hlo").exists()


def test_an_unknown_model_of_a_gpu_names_those_there_are(refxla, program):
    error = refxla("show", program(), "--opencl", "--device", "gpu:nvidia-sm9").error
    assert "gpu:nvidia-sm80" in error and "did you mean 'gpu:nvidia-sm90'?" in error
    assert "did you mean 'pocl:gpu'?" in refxla("show", program(), "--opencl", "--device", "pocl:gqu").error


def test_types_and_operations_that_are_nearly_known(refxla):
    assert "did you mean 'f32'?" in refxla("ops", "--type", "float32").error
    assert "did you mean 'negate'?" in refxla("ops", "neg").error
    assert "1 of 1 operation named takes f32; all" in refxla("ops", "add", "--type", "f32").out


def test_a_cache_that_is_a_file(refxla, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("REFXLA_CACHE_DIR", str(tmp_path / "file"))
    assert refxla("cache").error == f"{tmp_path}/file is a file, and no cache; name a directory by REFXLA_CACHE_DIR\n"
