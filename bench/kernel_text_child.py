"""What one version of refxla writes for programs: a child process of bench/kernel_text.py.

It runs with that version's packages, whichever that is, so it uses nothing of it but the command `refxla show`, and
imports nothing of this checkout. Each line of standard input is a program, {"hlo", "options"}; the line of standard
output that answers it is {"plan", "opencl"}, or {"refused": message}. Nothing is built or run.
"""

import contextlib
import io
import json
import os
import runpy
import sys
import tempfile


def shown(file: str, form: str, options: list[str]) -> tuple[int, str, str]:
    """The exit status of `refxla show` in this process, its standard output and its standard error."""
    sys.argv = ["refxla", "show", file, form, *options]
    out, err = io.StringIO(), io.StringIO()
    status: object = 0
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_module("refxla", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            status = end.code
    return (status if isinstance(status, int) else 0 if status is None else 1), out.getvalue(), err.getvalue()


def main() -> None:
    """Answer until there is no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints is no answer
    with tempfile.TemporaryDirectory(prefix="kernel-text-") as folder:
        os.chdir(folder)  # so that messages name the file alike everywhere
        for line in sys.stdin:
            asked = json.loads(line)
            with open("program.hlo", "w", encoding="utf-8") as file:
                file.write(asked["hlo"])
            answer: dict[str, str] = {}
            for form in ("plan", "opencl"):
                status, out, err = shown("program.hlo", f"--{form}", asked["options"])
                if status:
                    answer = {"refused": err.strip()}
                    break
                answer[form] = out
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


main()
