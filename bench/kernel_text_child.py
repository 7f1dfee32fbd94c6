"""Runs one version of refxla on programs: a child process of bench/kernel_text.py.

It runs with that version's packages, which are in the current directory, for any version. So it uses only the command
`refxla show`, and imports nothing from this checkout. Each line of standard input is a program, {"hlo", "options"}; its
answer on standard output is {"plan", "opencl"}, or {"refused": message}. Nothing is built or run.
"""

import contextlib
import importlib
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


def check_packages(folder: str) -> None:
    """Ends this process if the imported packages are not those of the folder: a checkout whose core is not built is
    replaced by an installed refxla."""
    for name in os.listdir(folder):
        file = importlib.import_module(name).__file__
        if file is None or not os.path.samefile(os.path.dirname(file), os.path.join(folder, name)):
            sys.exit(f"its core is not built (setup.py build_ext --inplace), and {name} would be that of {file}")


def main() -> None:
    """Answers until there are no more requests."""
    check_packages(os.getcwd())
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # library output must not become an answer
    with tempfile.TemporaryDirectory(prefix="kernel-text-") as folder:
        os.chdir(folder)  # so that messages name the file in the same way everywhere
        for line in sys.stdin:
            request = json.loads(line)
            with open("program.hlo", "w", encoding="utf-8") as file:
                file.write(request["hlo"])
            answer: dict[str, str] = {}
            for form in ("plan", "opencl"):
                status, out, err = shown("program.hlo", f"--{form}", request["options"])
                if status:
                    answer = {"refused": err.strip()}
                    break
                answer[form] = out
            answers.write(json.dumps(answer) + "\n")
            answers.flush()


main()
