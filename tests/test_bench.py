"""The measuring commands: what they measure and how they print it. No test here depends on the speed of anything."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(autouse=True)
def from_the_root(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))


def run(*arguments: str) -> str:
    process = subprocess.run([sys.executable, "-m", *arguments], cwd=ROOT, capture_output=True, text=True)
    assert not process.returncode, process.stderr
    return process.stdout


def test_calls_take_turns():
    from bench.machine import in_turns, summary

    order = []
    samples = in_turns({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, seconds=0, turns=3)
    assert "".join(order) == "aabb" * 3, "a call to warm up and one that counts, in each turn"
    assert [len(s) for s in samples.values()] == [3, 3]
    assert summary([3.0, 1.0, 2.0]) == {"median": 2.0, "best": 1.0}


def test_the_reference_has_no_profile():
    arguments = ["examples/fused_sum/fused_sum.hlo", "--device", "reference"]
    process = subprocess.run(
        [sys.executable, "-m", "bench.profile", *arguments], cwd=ROOT, capture_output=True, text=True
    )
    assert process.returncode == 2 and "the reference has no kernels; name an OpenCL device" in process.stderr


def test_the_profile_prints_json_and_source(tmp_path):
    file = str(ROOT / "examples/fused_sum/fused_sum.hlo")
    shown = json.loads(run("bench.profile", file, "--json", "--seconds", "0.01"))
    name = shown["kernels"][0]["name"]
    assert shown["machine"]["cores"] >= 1
    assert "for (" in run("bench.profile", file, "--kernel", name)


def test_peers_prints_a_table_and_writes_json(tmp_path):
    file = tmp_path / "figures.json"
    picture = tmp_path / "chart.svg"
    command = ["bench.peers", "dispatch", "softmax", "--small", "--peers", "jax", "numpy", "--seconds", "0"]
    shown = run(*command, "--turns", "1", "--json", str(file), "--svg", str(picture))
    assert "x + 1 dispatch" in shown and "beside jax: geometric mean" in shown
    figures = json.loads(file.read_text())
    cells = figures["entries"]["softmax"]["cells"]
    assert all(cells[peer]["best"] > 0 and cells[peer]["distance"] < 1e-5 for peer in ("refxla", "jax", "numpy"))
    assert figures["totals"]["jax"]["entries"] == 2
    assert figures["machine"]["processor"] and figures["versions"]["numpy"]
    assert {"softmax", "x + 1 dispatch"} <= {e.text for e in ElementTree.parse(picture).iter() if e.text}


def test_the_seconds_to_the_first_result_are_of_empty_caches_and_of_full_ones(tmp_path):
    file = tmp_path / "figures.json"
    command = ["bench.peers", "dispatch", "--small", "--peers", "numpy", "--compile", "--turns", "2"]
    assert "seconds to the first result" in run(*command, "--json", str(file))
    cells = json.loads(file.read_text())["entries"]["x + 1 dispatch"]["cells"]
    assert cells["refxla"]["best"] <= cells["refxla"]["median"] and cells["refxla"]["cached"] > 0
    assert "cached" not in cells["numpy"]


def test_a_framework_that_computes_something_else_is_not_measured(tmp_path):
    import numpy as np

    from bench.child import Absent, Child, distance

    assert distance([np.ones(3)], [np.ones(2)]) == distance([np.array([np.nan])], [np.ones(1)]) == float("inf")
    assert distance([np.array([1.0, 4.5])], [np.array([1.0, 4.0])]) == 0.125
    with Child("numpy", threads=2) as child:
        assert child.prepare("GEMM 256", tmp_path, small=True)["distance"] == 0.0, "what comes first is the measure"
        (tmp_path / "GEMM 256.npz").unlink()
        np.savez(tmp_path / "GEMM 256.npz", **{"0": np.zeros((33, 33), np.float32)})
        assert child.prepare("GEMM 256", tmp_path, small=True)["distance"] > 1e3
        with pytest.raises(Absent, match="takes no gradients"):
            child.prepare("MLP step", tmp_path, small=True)
        with pytest.raises(Absent, match="nothing is prepared"):
            child.measure(0)


def test_ratios_and_their_totals():
    from bench.report import lowest_of_runs, picture, ratios, summary, totals

    def row(**seconds):
        return {"group": "models", "cells": {k: {"median": v} if v else {"absent": "why"} for k, v in seconds.items()}}

    entries = {"a": row(refxla=1.0, jax=4.0, torch=0.5), "b": row(refxla=2.0, jax=2.0, torch=None), "c": row(jax=1.0)}
    figures = {"what": "seconds", "entries": entries, "machine": {"processor": "p"}, "threads": 2}
    assert ratios(figures) == {"a": {"jax": 4.0, "torch": 0.5}, "b": {"jax": 1.0}}
    total = totals(figures)["jax"]
    assert (total["geometric mean"], total["median"], total["lowest"]) == (2.0, 2.5, 1.0)
    assert (total["entries"], total["below 1"]) == (2, 0) and math.isnan(total["without the three best"])
    assert totals(figures)["best"]["below 1"] == 1
    slower = {**figures, "entries": {"a": row(refxla=1.0, jax=0.5)}}
    assert lowest_of_runs([figures, slower]) == {"a": {"jax": 0.5, "torch": 0.5}, "b": {"jax": 1.0}}
    assert summary([0.5, 2.0, 16.0, 32.0, 64.0])["without the three best"] == 1.0
    assert "2.00x (geometric mean of 2, 0 below 1)" in picture(figures)


FEW = ("x + 1 dispatch", "scatter-add", "k-means", "DLRM step", "LSTM forward", "GPT decode")


@pytest.mark.parametrize("name", FEW)
def test_models_give_the_same_in_refxla_and_jax(name):
    """All of them do so before they are measured; here a few, small."""
    pytest.importorskip("jax")
    from bench.child import Prepared, distance

    ours, theirs = (Prepared(framework, name, small=True) for framework in ("refxla", "jax"))
    assert distance(ours.flat(), theirs.flat()) < 1e-5


def test_the_suite_has_what_it_names():
    from bench.models import ENTRIES, chosen

    assert len({e.name for e in ENTRIES}) == len(ENTRIES) >= 20
    assert chosen(["models", "gemm"]) == [e for e in ENTRIES if e.group == "models" or "GEMM" in e.name]
    with pytest.raises(ValueError, match="there are the groups kernels, science, models"):
        chosen(["quicksort"])


def test_programs_are_measured_beside_jax_and_their_results_compared(tmp_path):
    pytest.importorskip("jax")
    from bench.programs.__main__ import compile_ratios

    file = tmp_path / "figures.json"
    command = ["bench.programs", "--only", "sort by two keys", "--small", "--turns", "1", "--seconds", "0"]
    shown = run(*command, "--json", str(file))
    assert "sort by two keys" in shown and "run: geometric mean" in shown and "compile: geometric mean" in shown
    figures = json.loads(file.read_text())
    cells = figures["entries"]["sort by two keys"]["cells"]
    assert cells["refxla"]["median"] > 0 and cells["jax"]["distance"] == 0.0
    assert compile_ratios(figures) == {"sort by two keys": cells["jax"]["first"] / cells["refxla"]["first"]}
    assert shown == run("bench.programs", "--json", str(file), "--show"), "the same table, without measuring"


def test_the_list_of_programs_has_many_of_every_kind():
    pytest.importorskip("jax")
    from bench.models import ENTRIES, chosen
    from bench.programs import PROGRAMS

    names = [e.name for e in PROGRAMS]
    assert len({*names, *(e.name for e in ENTRIES)}) == len(PROGRAMS) + len(ENTRIES), "child.entry finds them by name"
    assert len(PROGRAMS) >= 60 and {"solvers", "sparse", "scans", "text"} <= {e.group for e in PROGRAMS}
    assert [e.name for e in chosen(["text", "heat stencil"], PROGRAMS)][0] == "heat stencil"


def test_bandwidth_is_shown_beside_a_copy(tmp_path):
    pytest.importorskip("jax")
    file = str(tmp_path / "rows.json")
    shown = run("bench.bandwidth", "chain with", "--seconds", "0.01", "--json", file)
    (row,) = json.loads(open(file).read())["rows"]
    assert row["bytes"] == 2 * 4 * 4099 * 4001 and row["kernels"] == 1 and 0 < row["share"] < 20
    assert 0 < row["share_of_memcpy"] < 20
    assert f"{row['share']:.0%}" in shown


def test_a_notebook_is_measured_on_both_platforms(tmp_path):
    pytest.importorskip("jax")
    file = tmp_path / "notebook.json"
    assert "cached: refxla" in run("bench.notebook", "--small", "--turns", "1", "--json", str(file))
    figures = json.loads(file.read_text())
    assert figures["operations"] == figures["kinds"] > 5
    for platform in ("refxla", "jax"):
        assert all(len(figures["rows"][platform][which]["samples"]) == 1 for which in ("cold", "cached"))


def test_matrix_products_are_written_as_json(tmp_path):
    file = tmp_path / "gemm.json"
    run("bench.gemm", "257", "--seconds", "0", "--turns", "1", "--json", str(file))
    figures = json.loads(file.read_text())
    (row,) = figures["rows"]
    assert row["operations"] == 2 * 257**3 and row["ratio"] == row["numpy"] / row["refxla"]
    assert figures["command"] == f"python -m bench.gemm 257 --seconds 0 --turns 1 --json {file}"
    assert figures["machine"]["date"]


def test_the_published_page_is_what_the_raw_figures_make():
    from bench.page import headline, headline_of_peers, headline_of_programs, main, newest

    assert main(["--check"]) == 0
    readme = " ".join((ROOT / "README.md").read_text().split())
    assert headline(newest("speed")) in readme and headline_of_programs(newest("programs")) in readme
    assert headline_of_peers(newest("peers")) in readme


def test_a_page_of_two_runs_shows_the_lowest():
    from bench.page import speed

    def figures(seconds):
        cells = {"refxla": {"median": 1.0}, "jax": {"median": seconds}}
        machine = {"load": [0.5], "commit": "abc", "date": "2026-01-01"}
        return {"command": "python -m x", "machine": machine, "entries": {"sum": {"group": "kernels", "cells": cells}}}

    text = "\n".join(speed([figures(3.0), figures(2.0)]))
    assert "| the lowest of the runs, program by program | 2.00 | nan | 2.00 | 2.00 | 0 of 1 |" in text
    assert "| sum | 1 s | 2 s | 3.00 | 2.00 |" in text and "commit abc, 2026-01-01" in text


def test_cliffs_are_found_in_the_figures_alone():
    from bench.findings import findings

    def figures(**seconds):
        cells = {n: {"refxla": {"median": 1.0}, "jax": {"median": s}} for n, s in seconds.items()}
        names = {n: n.replace("_", " ").replace(" at ", " by size: ") for n in cells}
        return {"entries": {names[n]: {"group": "sums", "cells": cell} for n, cell in cells.items()}}

    found = findings(figures(sum_at_1=3.0, sum_at_2=1.0, sum_at_3=1.1, mean_at_1=0.7, mean_at_2=0.9, sort_at_1=9.0))
    assert [(f.sweep, f.place, f.what, f.neighbour) for f in found] == [
        ("mean by size", "1", "behind", None),
        ("sum by size", "2", "falls", ("1", 3.0)),
    ]
    assert not findings(figures(sort_at_1=9.0, sort_at_2=3.0)), "refxla is well ahead at both: a cliff of JAX's"
    unmeasured = figures(sum_at_1=3.0, sum_at_2=0.5, sum_at_3=3.0)
    del unmeasured["entries"]["sum by size: 2"]["cells"]["jax"]["median"]
    unmeasured["entries"]["sum by size: 2"]["cells"]["jax"]["absent"] = "wrong"
    assert not findings(unmeasured)


def test_sweeps_are_measured_and_kept_in_their_order(tmp_path, capsys):
    pytest.importorskip("jax")
    from bench.cliffs.__main__ import main

    file, sweep = tmp_path / "cliffs.json", "scalar recurrence by trips"
    seconds = {100_000: 5.0, 1000: 0.5}  # of JAX: 1000 is behind, and falls beside 100,000
    later = {
        f"{sweep}: {n}": {"group": "loops", "cells": {"refxla": {"median": 1.0}, "jax": {"median": jax}}}
        for n, jax in seconds.items()
    }
    about = {"kind": "cliffs", "what": "seconds of a call", "machine": {}, "threads": 1, "small": False}
    file.write_text(json.dumps({**about, "entries": later}))
    command = ["bench.cliffs", "--turns", "1", "--seconds", "0", "--threads", "1", "--json", str(file), "--keep"]
    shown = run(*command, "--only", "cumulative sum by size: 16").split("loops:")
    names = [*(f"{sweep}: {n}" for n in (1000, 100_000)), "cumulative sum by size: 16"]
    assert [name for name in json.loads(file.read_text())["entries"] if name in names] == names
    main(["--json", str(file), "--show"])
    table, _, totals = capsys.readouterr().out.partition("loops:")
    assert totals.split() == shown[1].split() and all(text in table for text in ("0.50", "5.00", "(100000)"))


def test_every_point_of_the_sweeps_has_its_own_name():
    pytest.importorskip("jax")
    from bench.cliffs import POINTS

    names = [entry.name for entry in POINTS]
    assert len(set(names)) == len(names) > 700


def test_a_chain_is_drawn_from_a_number_and_is_its_text():
    pytest.importorskip("jax")
    from bench.chains import drawn, parsed
    from bench.child import entry

    chains = [drawn(seed) for seed in range(12)]
    assert [parsed(str(chain)) for chain in chains] == chains == [drawn(seed) for seed in range(12)]
    assert len({name for chain in chains for name, _ in chain.steps}) > 20, "steps of all kinds"
    chain = entry("f32[4,6] take_along(1) dot(1,8) mean(0)")
    assert [a.shape for a in chain.arguments()] == [(4, 6), (4, 6), (6, 8)]
    assert chain.function(None, *chain.arguments()).shape == (8,)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("sin", "begins with an array"),
        ("q7[4] sin", "begins with an array"),
        ("f32[4] sine", "no step is 'sine'"),
        ("f32[4] mean(0)", "mean gives"),
        ("f32[4,4] mean(2)", "mean does not apply"),
    ],
)
def test_a_chain_that_says_nothing_is_refused(text, problem):
    pytest.importorskip("jax")
    from bench.chains import parsed

    with pytest.raises(ValueError, match=problem):
        parsed(text)


def test_a_chain_that_is_behind_is_cut_to_the_steps_to_blame():
    pytest.importorskip("jax")
    from argparse import Namespace

    from bench.chains.__main__ import _shrink

    def cell(name):
        blamed = "sort(1)" in name and "flip(1)" in name
        return {"cells": {"refxla": {"median": 1.0}, "jax": {"median": 0.5 if blamed else 2.0}}}

    figures = {"entries": {n: cell(n) for n in ("f32[4,8] sin flip(1) exp sort(1)", "f32[4,8] sin sort(1)")}}
    asked = []

    def measure(entries):
        asked.append([entry.name for entry in entries])
        figures["entries"].update({name: cell(name) for name in asked[-1]})

    _shrink(figures, Namespace(shrink=True), measure)
    assert [len(names) for names in asked] == [4, 3, 2], "each of its steps is left out, two for good"
    assert figures["entries"]["f32[4,8] flip(1) sort(1)"]["cells"]["jax"]["median"] == 0.5


def test_calls_are_measured_beside_another_checkout(monkeypatch, capsys):
    from bench import dispatch

    monkeypatch.setattr(dispatch, "PROGRAMS", dict(list(dispatch.PROGRAMS.items())[:1]))
    monkeypatch.setattr("sys.argv", ["dispatch", "--beside", str(dispatch.HERE), "--turns", "1"])
    assert dispatch.main() == 0
    assert re.search(r"^x \+ x: \d+\.\d\d us; .* median of the ratios \d\.\d\d$", capsys.readouterr().out, re.M)
