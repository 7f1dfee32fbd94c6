"""Kernels for GPUs, as real GPU compilers translate them: no spills, dense main loops, whole sectors of memory. Skipped
where the compilers are not installed; `tox -e gpu` installs them."""

import functools
import os
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from refxla_spec.text import parse

from bench import gpu_compilers as compilers
from bench import gpu_parallelism, gpu_results, gpu_static
from bench.gpu_results import KernelResults
from bench.gpu_transactions import Transactions, traced
from refxla.codegen.opencl_program import program
from refxla.compiler.planning import plan_module
from refxla.device.capabilities import CLANG_GPU
from refxla.device.gpu_models import MODELS
from refxla.passes.pipeline import LAUNCH_MERGING

REDUCERS = """
    add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] add(a, b) }
    max { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] maximum(a, b) }
    ge { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = pred[] compare(a, b), direction=GE }
"""
PROGRAMS = {
    "elements": "x = f32[1024,1024] parameter(0)\nROOT r = f32[1024,1024] tanh(x)",
    "transpose": "x = f32[2048,1024] parameter(0)\nROOT r = f32[1024,2048] transpose(x), dimensions={1,0}",
    "rows": "x = f32[4096,1000] parameter(0)\nz = f32[] constant(0)\n"
    "ROOT r = f32[4096] reduce(x, z), dimensions={1}, to_apply=add",
    "columns": "x = f32[4096,1024] parameter(0)\nz = f32[] constant(0)\n"
    "ROOT r = f32[1024] reduce(x, z), dimensions={0}, to_apply=add",
    "depthwise": """x = f32[8,56,56,64] parameter(0)
        w = f32[3,3,1,64] parameter(1)
        ROOT r = f32[8,56,56,64] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f,
            feature_group_count=64""",
    "depthwise, channels first": """x = f32[8,64,64,64] parameter(0)
        w = f32[64,1,3,3] parameter(1)
        ROOT r = f32[8,64,64,64] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=bf01_oi01->bf01,
            feature_group_count=64""",
    "features of an image": """x = f32[64,64,64,3] parameter(0)
        w = f32[3,3,3,16] parameter(1)
        ROOT r = f32[64,62,62,16] convolution(x, w), window={size=3x3}, dim_labels=b01f_01io->b01f""",
    "pooling": """x = f32[8,112,112,64] parameter(0)
        low = f32[] constant(-inf)
        ROOT r = f32[8,56,56,64] reduce-window(x, low), window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0},
            to_apply=max""",
    "sums of windows": """x = f32[8,64,64,64] parameter(0)
        z = f32[] constant(0)
        ROOT r = f32[8,64,64,64] reduce-window(x, z), window={size=1x1x3x3 pad=0_0x0_0x1_1x1_1}, to_apply=add""",
    "gradient of pooling": """x = f32[8,112,112,64] parameter(0)
        s = f32[8,56,56,64] parameter(1)
        z = f32[] constant(0)
        ROOT r = f32[8,112,112,64] select-and-scatter(x, s, z),
            window={size=1x3x3x1 stride=1x2x2x1 pad=0_0x1_1x1_1x0_0}, select=ge, scatter=add""",
    "filter gradient": """x = f32[8,56,56,64] parameter(0)
        y = f32[8,56,56,64] parameter(1)
        ROOT r = f32[3,3,1,64] convolution(x, y), window={size=56x56 pad=1_1x1_1}, dim_labels=f01b_i01o->01bf,
            batch_group_count=64""",
    "filter gradient, features first": """x = f32[8,64,56,56] parameter(0)
        y = f32[8,64,56,56] parameter(1)
        ROOT r = f32[64,64,3,3] convolution(x, y), window={size=56x56 pad=1_1x1_1}, dim_labels=fb01_io01->fb01""",
    "depthwise filter gradient, features first": """x = f32[8,64,56,56] parameter(0)
        y = f32[8,64,56,56] parameter(1)
        ROOT r = f32[1,64,3,3] convolution(x, y), window={size=56x56 pad=1_1x1_1}, dim_labels=fb01_io01->bf01,
            batch_group_count=64""",
    "softmax": """x = f32[4096,1000] parameter(0)
        low = f32[] constant(-inf)
        z = f32[] constant(0)
        m = f32[4096] reduce(x, low), dimensions={1}, to_apply=max
        mb = f32[4096,1000] broadcast(m), dimensions={0}
        d = f32[4096,1000] subtract(x, mb)
        e = f32[4096,1000] exponential(d)
        s = f32[4096] reduce(e, z), dimensions={1}, to_apply=add
        sb = f32[4096,1000] broadcast(s), dimensions={0}
        ROOT r = f32[4096,1000] divide(e, sb)""",
}
FEW_ROWS = """x = f32[8,4096] parameter(0)
    y = f32[4096,4096] parameter(1)
    ROOT r = f32[8,4096] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={DIMENSION}"""
ACROSS = """x = f32[64,64,512] parameter(0)
    y = f32[64,512,64] parameter(1)
    t = f32[64,64,512] transpose(y), dimensions={0,2,1}
    a = f32[64,64,512] add(x, t)
    z = f32[] constant(0)
    ROOT r = f32[64,64] reduce(a, z), dimensions={2}, to_apply=add"""
IN_PART = ("depthwise, channels first", "sums of windows")  # vectors of an image are used in part
PRODUCT = """x = f32[N,N] parameter(0)
    y = f32[N,N] parameter(1)
    ROOT r = f32[N,N] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}"""


def kernels(lines: str, device: str):
    """The source of each kernel of a program for a described GPU, its name and the bytes of its arguments."""
    target = replace(MODELS[device].target, capabilities=CLANG_GPU)
    text = f"HloModule m\n{REDUCERS}\nENTRY main {{\n{lines}\n}}"
    for kernel in plan_module(parse(text), target, (LAUNCH_MERGING,))[1].plan.kernels:
        made = program([kernel], target)
        yield made.source, made.entries[0][0], [a.bytes or a.instruction.shape.bytes for a in kernel.arguments]


def need(vendor: str) -> None:
    lacking = compilers.missing(vendor)
    if lacking:
        (pytest.fail if os.environ.get("TOX_ENV_NAME") == "gpu" else pytest.skip)(lacking)


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setattr(compilers, "_find_clang", lambda: None)
    monkeypatch.setattr(compilers, "find", lambda names: None)
    assert compilers.missing("amd").startswith("clang not found: pip install ziglang==")
    assert compilers.missing("nvidia").startswith("clang, ptxas, nvdisasm not found: pip install ziglang==")
    with pytest.raises(compilers.Refused, match="clang not found"):
        compilers.clang()


def test_the_environment_for_these_tests_installs_what_the_message_names():
    lines = (Path(__file__).parents[1] / "tox.ini").read_text().partition("[testenv:gpu]")[2].split("\n[")[0]
    assert all(package in lines for package in compilers.PACKAGES.values())


@pytest.fixture
def calls(monkeypatch):
    """The calls of the compilers, which have fixed results: the names of the GPUs, and the items traced."""
    made = SimpleNamespace(compiled=[], traced=[])
    code, transactions = compilers.MachineCode(8, 0, 0, 0, {"FFMA": 1}), Transactions(32, 1, 1, 1, 128)
    monkeypatch.setattr(gpu_results, "compiled", lambda source, model: made.compiled.append(model.name) or code)
    monkeypatch.setattr(gpu_static, "missing", lambda vendor: "")
    monkeypatch.setattr(gpu_results, "traced", lambda *arguments: made.traced.append(arguments[-1]) or transactions)
    return made


def elements(results: KernelResults, name: str):
    """The row of a small kernel on a GPU."""
    module, model = parse(f"HloModule m\n{REDUCERS}\nENTRY main {{\n{PROGRAMS['elements']}\n}}"), MODELS[name]
    plan = plan_module(module, replace(model.target, capabilities=CLANG_GPU), (LAUNCH_MERGING,))[1].plan
    return gpu_static.row(SimpleNamespace(name="elements"), plan, plan.kernels[0], model, results)


def test_equal_kernels_are_compiled_once_for_a_gpu_and_traced_once_for_as_many_items(calls):
    names, results = ["gpu:nvidia-sm90", "gpu:amd-gfx90a"], KernelResults()
    for name in names * 2:
        elements(results, name)
    assert calls.compiled == names and calls.traced == [32, 64]


def test_a_run_that_was_stopped_leaves_the_kernels_it_had(calls, tmp_path):
    file = tmp_path / "rows.json.unfinished"
    first = elements(KernelResults(file), "gpu:nvidia-sm90")
    with file.open("a") as out:
        out.write('{"key": "the line that it was wri')
    assert elements(KernelResults(file), "gpu:nvidia-sm90") == first
    assert calls.compiled == ["gpu:nvidia-sm90"] and calls.traced == [32]
    elements(KernelResults(file), "gpu:amd-gfx90a")  # writes a line after the incomplete one
    elements(KernelResults(file), "gpu:amd-gfx90a")
    assert calls.compiled == ["gpu:nvidia-sm90", "gpu:amd-gfx90a"]


def test_a_run_that_is_complete_leaves_its_file_alone(calls, tmp_path):
    pytest.importorskip("jax", reason="JAX writes the suite's HLO")
    file = tmp_path / "rows.json"
    assert gpu_static.main(["x + 1 dispatch", "--device", "gpu:nvidia-sm90", "--json", str(file)]) == 0
    assert [p.name for p in tmp_path.iterdir()] == [file.name]
    assert [r.entry for r in gpu_static.load(file)] == ["x + 1 dispatch"]


def occupied(source: str, code: compilers.MachineCode, device: str) -> float:
    """The fraction of the items of a compute unit that a kernel's registers and local memory allow: a quarter with 128
    registers an item on NVIDIA's GPUs, 3/16 with three work-groups of 128 items on AMD's."""
    group = re.search(r"reqd_work_group_size\((\d+)", source)
    return compilers.occupancy(code, MODELS[device], int(group[1]) if group else 64)


@pytest.mark.parametrize("device", MODELS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_is_spilled(name, device):
    need(device.removeprefix("gpu:").partition("-")[0])
    for source, _, _ in kernels(PROGRAMS[name], device):
        code = compilers.compiled(source, MODELS[device])
        assert code.spilled == 0 and occupied(source, code, device) >= 3 / 16


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name != "features of an image"])  # those read three each
def test_accesses_touch_whole_sectors(name):
    """At most 1.25 times as many as would hold the bytes; 1.35 where vectors are used in part."""
    need("amd")  # clang alone
    for source, function, sizes in kernels(PROGRAMS[name], "gpu:nvidia-sm90"):
        found = traced(source, function, sizes, 1 if name != "rows" else 0, 32)
        assert found.accesses and found.excess <= (1.35 if name in IN_PART else 1.25)


def test_rows_read_across_memory_touch_few_sectors():
    """A sub-group has 4 lanes of 8 rows: whole sectors of the transposed operand, and halves of the other one's."""
    need("amd")  # clang alone
    ((source, function, sizes),) = kernels(ACROSS, "gpu:nvidia-sm90")
    assert traced(source, function, sizes, 1, 32).excess <= 1.5


def test_the_main_loop_of_few_long_sums_adds():
    """Of each column of x, whose segments are loops of their own: at most five instructions for each term."""
    need("nvidia")
    lines = "x = f32[70001,24] parameter(0)\nz = f32[] constant(0)\n"
    lines += "ROOT r = f32[24] reduce(x, z), dimensions={0}, to_apply=add"
    (source, _, _), _ = kernels(lines, "gpu:nvidia-sm90")
    code = compilers.compiled(source, MODELS["gpu:nvidia-sm90"])
    assert "segment" in source and code.loop["LDS"] == 8 and sum(code.loop.values()) <= 5 * code.loop["FADD"]


@pytest.mark.parametrize("size", [1024, 4096])
def test_the_main_loop_of_a_product_multiplies(size):
    need("nvidia")
    ((source, function, sizes),) = kernels(PRODUCT.replace("N", str(size)), "gpu:nvidia-sm90")
    code = compilers.compiled(source, MODELS["gpu:nvidia-sm90"])
    assert code.spilled == 0
    assert code.multiply_adds >= 0.8
    assert code.loop["FFMA"] >= 128 * code.loop["LDG"]  # of 16 bytes each
    assert traced(source, function, sizes, 1, 32).excess <= 1.25


def convolved(x: str, w: str, result: str, window: str, labels: str = "b01f_01io->b01f") -> str:
    """A convolution of arrays with these sizes."""
    return f"""x = f32[{x}] parameter(0)
        w = f32[{w}] parameter(1)
        ROOT r = f32[{result}] convolution(x, w), window={{{window}}}, dim_labels={labels}"""


OF_IMAGE, OF_FILTER = "b01f_01oi->b01f", "f01b_i01o->01bf"
CONVOLUTIONS = {
    "1x1": convolved("8,28,28,1024", "1,1,1024,1024", "8,28,28,1024", "size=1x1"),
    "3x3": convolved("8,14,14,1024", "3,3,1024,1024", "8,14,14,1024", "size=3x3 pad=1_1x1_1"),
    "3x3 of large images": convolved("8,56,56,128", "3,3,128,128", "8,56,56,128", "size=3x3 pad=1_1x1_1"),
    "3x3, channels first": convolved(
        "8,128,64,64", "128,128,3,3", "8,128,64,64", "size=3x3 pad=1_1x1_1", "bf01_oi01->bf01"
    ),
    "strided": convolved("8,56,56,256", "3,3,256,512", "8,28,28,512", "size=3x3 stride=2x2 pad=0_1x0_1"),
    "5x5": convolved("8,14,14,1024", "5,5,1024,1024", "8,14,14,1024", "size=5x5 pad=2_2x2_2"),
    "gradient of the image": convolved(
        "8,14,14,1024", "3,3,1024,1024", "8,14,14,1024", "size=3x3 pad=1_1x1_1 rhs_reversal=1x1", OF_IMAGE
    ),
    "gradient of the image, strided": convolved(
        "8,14,14,1024",
        "3,3,1024,1024",
        "8,28,28,1024",
        "size=3x3 pad=1_2x1_2 lhs_dilate=2x2 rhs_reversal=1x1",
        OF_IMAGE,
    ),
    "gradient of the image, 5x5": convolved(
        "8,14,14,1024", "5,5,1024,1024", "8,14,14,1024", "size=5x5 pad=2_2x2_2 rhs_reversal=1x1", OF_IMAGE
    ),
    "gradient of the filter": convolved(
        "8,14,14,1024", "8,14,14,1024", "3,3,1024,1024", "size=14x14 pad=1_1x1_1", OF_FILTER
    ),
    "gradient of the filter, strided": convolved(
        "8,28,28,1024", "8,14,14,1024", "3,3,1024,1024", "size=14x14 pad=0_1x0_1 rhs_dilate=2x2", OF_FILTER
    ),
    "gradient of the filter, 5x5": convolved(
        "8,14,14,1024", "8,14,14,1024", "5,5,1024,1024", "size=14x14 pad=2_2x2_2", OF_FILTER
    ),
}


@pytest.mark.parametrize("device", MODELS)
@pytest.mark.parametrize("name", ["product", *CONVOLUTIONS])
def test_a_main_loop_spills_nothing(name, device):
    """Not even where sums have segments, whose totals are in registers, too."""
    need(device.removeprefix("gpu:").partition("-")[0])
    for source, _, _ in kernels(CONVOLUTIONS.get(name, PRODUCT.replace("N", "1024")), device):
        code = compilers.compiled(source, MODELS[device])
        assert code.spilled == 0 and occupied(source, code, device) >= 3 / 16


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_the_main_loop_of_a_convolution_multiplies(name):
    need("nvidia")
    *_, (source, function, sizes) = kernels(CONVOLUTIONS[name], "gpu:nvidia-sm90")
    code = compilers.compiled(source, MODELS["gpu:nvidia-sm90"])
    assert code.spilled == 0 and code.registers <= 128
    assert code.multiply_adds >= 0.8
    assert traced(source, function, sizes, 1, 32).excess <= 1.25


SASS = """
.L_x_1:
    /*0010*/ LDS R0, [R1] ;
    /*0020*/ @P0 BRA `(.L_x_2) ;
    /*0030*/ LDG.E R2, [R3] ;
.L_x_2:
    /*0040*/ @P1 BRA `(.L_x_3) ;
    /*0050*/ FFMA R4, R5, R6, R4 ;
    /*0060*/ FFMA R7, R5, R6, R7 ;
    /*0070*/ BRA `(.L_x_4) ;
.L_x_3:
    /*0080*/ ISETP P2, R8 ;
    /*0090*/ @P2 FFMA R4, R5, R6, R4 ;
    /*00a0*/ FFMA R7, R5, R6, R7 ;
    /*00b0*/ BAR.SYNC ;
.L_x_4:
    /*00c0*/ @P3 BRA `(.L_x_1) ;
    /*00d0*/ EXIT ;
"""


def test_an_iteration_is_counted_along_the_way_that_multiplies_loads_and_is_short():
    loop = compilers._loop(SASS, compilers._SASS_LABEL, compilers._SASS_BRANCH, compilers._SASS)
    assert loop == {"LDS": 1, "BRA": 4, "LDG": 1, "FFMA": 2}


@pytest.mark.parametrize("dimension", [0, 1])
def test_a_product_of_few_rows_reads_its_large_operand_once(dimension):
    need("nvidia")
    model = MODELS["gpu:nvidia-sm90"]
    ((source, function, sizes), _) = kernels(FEW_ROWS.replace("DIMENSION", str(dimension)), model.name)
    code, found = compilers.compiled(source, model), traced(source, function, sizes, 1, 32)
    assert code.spilled == 0 and code.registers <= 128
    assert code.multiply_adds >= (0.7, 0.5)[dimension]
    own = 256 * 4 * (2, 1)[dimension]  # bytes of an item's columns in a segment
    assert found.excess == 1 and own < found.bytes / 32 <= 1.4 * own


WINDOW = "ROOT r = f32[SIZES] reduce-window(x, START), window={size=LONGx1 pad=BEFORE_0x0_0}, to_apply=REDUCER"


def column_windows(reducer: str, start: str, size: int, before: int = 0) -> str:
    """Windows of each column of x, which begin so many elements before it."""
    words = {"SIZES": f"{100001 + before - size},4", "START": start, "LONG": size, "BEFORE": before, "REDUCER": reducer}
    return functools.reduce(lambda text, word: text.replace(word, str(words[word])), words, WINDOW)


PARALLEL = {
    "cumulative sums of few columns": column_windows("add", "z", 100000, 99999),
    "cumulative maxima of few columns": column_windows("max", "low", 100000, 99999),
    "cumulative products of a row": """y = f32[400000] reshape(x)
        ROOT r = f32[400000] reduce-window(y, one), window={size=400000 pad=399999_0}, to_apply=times""",
    "sums of large windows": column_windows("add", "z", 1000),
    "maxima of large windows": column_windows("max", "low", 1000),
    "gradient of pooling": """s = f32[99001,4] parameter(1)
        ROOT r = f32[100000,4] select-and-scatter(x, s, z), window={size=1000x1}, select=ge, scatter=add""",
    "gradient of pooling by one window": """s = f32[1,4] parameter(1)
        ROOT r = f32[100000,4] select-and-scatter(x, s, z), window={size=100000x1}, select=ge, scatter=add""",
    "a sum": "ROOT r = f32[] reduce(x, z), dimensions={0,1}, to_apply=add",
    "few sums": "ROOT r = f32[4] reduce(x, z), dimensions={0}, to_apply=add",
    "a product": "ROOT r = f32[] reduce(x, one), dimensions={0,1}, to_apply=times",
}


def parallelism(lines: str) -> list[gpu_parallelism.Parallelism]:
    """The kernels of a program of x, f32[100000,4], for an H200."""
    values = "z = f32[] constant(0)\nlow = f32[] constant(-inf)\none = f32[] constant(1)"
    times = "times { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT c = f32[] multiply(a, b) }"
    text = f"HloModule m\n{REDUCERS}\n{times}\nENTRY main {{\nx = f32[100000,4] parameter(0)\n{values}\n{lines}\n}}"
    return list(gpu_parallelism.of_program("own", text))


@pytest.mark.parametrize("name", PARALLEL)
def test_no_kernel_is_serial_over_data_or_reads_it_again_and_again(name):
    need("amd")  # clang alone
    kernels = parallelism(PARALLEL[name])
    assert kernels and not [k for k in kernels if k.is_serial or k.is_repeated]


def test_products_of_floats_keep_the_order_that_is_promised():
    """(Whose kernels the examination finds, therefore. No prefix of a product may be computed in parts, which overflow
    where the whole does not.)"""
    need("amd")
    (serial,), (repeated,) = (
        parallelism(column_windows("times", "one", *window)) for window in ((100000, 99999), (1000,))
    )
    assert serial.is_serial and not serial.is_repeated and serial.requested <= 1
    assert repeated.is_repeated and not repeated.is_serial


def test_accesses_of_items_that_take_different_branches_are_counted_by_instruction():
    need("amd")
    source = """
    __kernel void branches(const int which, const int base, __global float* a, __global float* b) {
        const int i = (int)get_local_id(0);
        float x = 0;
        if (i % 2) x = b[i];
        a[i] = x;
    }"""
    assert traced(source, "branches", [128, 128], 0, 32) == Transactions(32, 2, 8, 6, 192)


def test_accesses_to_any_number_of_arrays_are_counted():
    need("amd")
    arrays = ", ".join(f"__global float* a{n}" for n in range(200))
    copies = " ".join(f"a{n + 1}[i] = a{n}[i];" for n in range(199))
    source = (
        f"__kernel void many(const int which, const int base, {arrays}) {{ const int i = get_local_id(0); {copies} }}"
    )
    found = traced(source, "many", [128] * 200, 0, 32)
    assert found.accesses == 200 and found.excess == 1


def test_accesses_that_run_across_memory_are_counted():
    need("amd")
    source = """
    __kernel void across(const int which, const int base, __global float* a, __global float* b) {
        const int i = (int)get_local_id(0);
        a[i] = b[i * 8];
    }"""
    assert traced(source, "across", [128, 1024], 0, 32) == Transactions(32, 2, 36, 8, 256)
