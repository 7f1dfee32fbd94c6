"""Signal handlers of the process, beside those of OpenCL drivers."""

import subprocess
import sys

import pytest


@pytest.mark.parametrize("before", [True, False])
def test_a_program_keeps_its_signal_handlers(before):
    """Also where they are installed before the first program is compiled, and for signals that have none."""
    program = f"""
        import os, signal, time
        def caught():
            return [line for line in open("/proc/self/status") if line.startswith(("SigCgt", "SigIgn"))]
        if {before}:
            for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
                signal.signal(number, lambda number, _: print(signal.Signals(number).name))
        import refxla, numpy as np
        import pyopencl  # imports what handles signals, such as faulthandler's
        at_first = caught()
        double = refxla.compile("HloModule m\\n\\nENTRY m {{ p = f32[4] parameter(0) ROOT r = f32[4] add(p, p) }}")
        assert double(np.ones(4, np.float32)).tolist() == [2] * 4
        assert caught() == at_first, (caught(), at_first)
        for number in (signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM) if {before} else ():
            os.kill(os.getpid(), number)
    """
    lines = [line[8:] for line in program.splitlines()]
    made = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, timeout=100)
    assert made.returncode == 0, made.stderr
    assert made.stdout.split() == (["SIGUSR1", "SIGUSR2", "SIGTERM"] if before else [])
