"""The README says what is so: the kernel it shows is the one that is made, the files it names are there."""

import re
from pathlib import Path

import refxla

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def plain(line: str) -> str:
    """A line of C without the numbers in its names and the blanks around it."""
    return re.sub(r"\b([a-z]+)\d+", r"\1", line).strip()


def test_the_kernel_shown_is_the_kernel_made():
    shown = re.search(r"```c\n(.*?)```", README, re.DOTALL)[1].splitlines()
    exe = refxla.compile(ROOT / "examples" / "fused_sum" / "fused_sum.hlo")
    assert len(exe.plan.kernels) == 1
    assert exe.memory.arena == 0
    made = iter([plain(line) for line in exe.opencl.splitlines()])
    for line in shown:
        assert line.strip() == "..." or plain(line) in made, line  # `in` moves the iterator on: the order counts


def test_the_files_named_exist():
    named = set(re.findall(r"\]\(([^)]+)\)", README)) | set(re.findall(r"examples/[a-z_/0-9]+\.\w+", README))
    assert len(named) > 5
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_every_page_of_the_documentation_is_linked():
    pages = {f"docs/{page.name}" for page in (ROOT / "docs").glob("*.md")}
    assert pages - set(re.findall(r"\]\(([^)]+)\)", README)) == {"docs/index.md", "docs/changes.md"}
