"""OpenCL C of merged kernels: what each body says is what is written."""

from dataclasses import replace

from refxla.codegen.merged_kernel_emitter import body_text
from refxla.ir import merged_body as m
from refxla.ir.plan import Argument, Kernel

INPUT, OUTPUT = Argument("input", "float"), Argument("output", "float")
PART = Kernel("part", "    a1[item] = a0[item];\n", (INPUT, OUTPUT), 4)


def merged(body: m.StructuredBody, calls: int = 1) -> list[str]:
    """The lines of a kernel that calls PART so many times."""
    kernel = Kernel("merged", body, (INPUT, OUTPUT), 1, (PART,) * calls)
    return [line.strip() for line in body_text(kernel, [f"f{n}" for n in range(calls)]).splitlines()]


def test_the_text_of_an_emitter_stays():
    assert body_text(PART) == PART.body


def test_sections_have_ranges_of_items():
    parallel = m.SectionBody(4, (m.KernelCall(0, (0, 1)),), serial=False)
    serial = m.SectionBody(1, (m.KernelCall(1, (2, 3)),), serial=True)
    assert merged(m.MergedBody((parallel, serial)), 2) == [
        "if (item < 4) {",
        "f0(item - 0, (__global const float*)a0, (__global float*)a1);",
        "}",
        "else if (item < 5) {",
        "for (int i = 0; i < 4; ++i) f1(i, (__global const float*)a2, (__global float*)a3);",
        "}",
    ]


def test_a_copy_is_cut_into_items():
    assert merged(m.CopyBody(8, 8), 0) == ["for (int i = 0; i < 8; ++i) a1[i] = a0[i];"]
    assert merged(m.CopyBody(9, 8), 0)[1] == "const int n = 9 - begin < 8 ? (int)(9 - begin) : 8;"


def test_parts_of_arguments_have_addresses():
    offsets = (m.IterationOffset(8), m.WorkerOffset(64, 16), m.TileOffset((12, 0), 4), m.TileNumberOffset(1, 4))
    texts = ["iteration * 8", "((long)item * 64 + 16)", "((long)s0 * 12 + 4)", "t1 * 4"]
    for offset, text in zip(offsets, texts, strict=True):
        call = m.KernelCall(0, (0, 1), ((0, offset),))
        (line,) = merged(m.MergedBody((m.SectionBody(4, (call,), serial=False),)))
        source = f"(__global const float*)((__global const uchar*)a0 + {text})"
        assert line == f"f0(item - 0, {source}, (__global float*)a1);"


def test_an_item_of_a_gpu_makes_a_call_of_its_own():
    call = m.KernelCall(0, (0, 1), ((0, m.TileNumberOffset(0, 8)),))
    one = Kernel("one", "    a1[0] = a0[0];\n", (INPUT, OUTPUT), 1)
    for body, condition, note in (
        (m.IterationsBody(300, call), "t0 < 300", []),
        (
            m.IterationsBody(300, call, 1, 2),
            "t0 < 300 && ((__global const uchar*)a1)[t0]",
            ["if (((__global const uchar*)a1)[t0]) atomic_or((__global volatile int*)a2, 1);"],
        ),
    ):
        kernel = Kernel("merged", body, (INPUT, OUTPUT, OUTPUT), 512, (one,), work_group=256)
        assert [line.strip() for line in body_text(kernel, ["f"]).splitlines()] == [
            "const int t0 = group * 256 + item;",
            f"if ({condition}) {{",
            "f(0, (__global const float*)((__global const uchar*)a0 + t0 * 8), (__global float*)a1);",
            *note,
            "}",
        ]


def test_the_last_tile_begins_earlier():
    axes = (m.Axis(5, 1), m.Axis(8, 4), m.Axis(10, 4))
    lines = merged(m.PersistentBody((m.TiledPhase(axes, (), (m.KernelCall(0, (0, 1)),)),)))
    assert [line for line in lines if line.startswith("const int s")] == [
        "const int s2 = ((t2) * 4 < 6 ? (t2) * 4 : 6);",
        "const int s1 = (t1) * 4;",
        "const int s0 = t0;",
    ]


def test_a_loop_that_ends_by_a_predicate_leaves_in_time():
    lines = merged(m.WhileLoopBody((), 2, (m.KernelCall(0, (0, 1)),), 3, iteration_ns=70, limit_ns=1000))
    assert "long spent = 0; for (; spent < 1000; spent += 70) {" in lines
    assert "if (!*(__global const uchar*)a2) break;" in lines


def test_private_memory_is_filled_before_the_call_and_copied_back_behind_it():
    typed = Argument("input", "int", bytes=4), Argument("output", "float", bytes=12), OUTPUT
    inner = Kernel("loop", m.MergedBody((), 3), typed, 1)
    body = m.FrameBody(m.KernelCall(0, (0, 1, 1), ((1, m.FrameOffset(64)), (2, m.FrameOffset(128)))), (0, 1))
    frame = Kernel("frame", body, (INPUT, OUTPUT), 1, (inner,))
    assert [line.strip() for line in body_text(frame, ["f"]).splitlines()] == [
        "int p0[4 / sizeof(int)];",
        "for (int i = 0; i < (int)(4 / sizeof(int)); ++i) p0[i] = ((__global const any_int*)a0)[i];",
        "float p1[12 / sizeof(float)];",
        "for (int i = 0; i < (int)(12 / sizeof(float)); ++i) "
        "p1[i] = ((__global const any_float*)((__global uchar*)a1 + 64))[i];",
        "f(item, p0, p1, (__global float*)((__global uchar*)a1 + 128));",
        "for (int i = 0; i < (int)(12 / sizeof(float)); ++i) "
        "((__global any_float*)((__global uchar*)a1 + 64))[i] = p1[i];",
    ]


def test_a_call_with_private_memory_says_where_it_lies():
    copy = Kernel("copy", m.CopyBody(3, 16384), (Argument("input", "uint", bytes=12), Argument("output", "uint")), 1)
    calls = m.KernelCall(0, (0, 1)), m.KernelCall(1, (1, 2))
    body = m.WhileLoopBody(calls, 3, (), 4, iteration_ns=70, limit_ns=1000)
    kernel = Kernel("merged", body, (INPUT, OUTPUT), 1, (replace(PART, items=1), copy))
    lines = [line.strip() for line in body_text(kernel, ["f", ""], {1: "float", 3: "uchar"}).splitlines()]
    assert "f(0, (__global const float*)a0, (__private float*)a1);" in lines
    assert (
        "for (int i = 0; i < (int)(12 / sizeof(float)); ++i) "
        "((__global any_float*)a2)[i] = ((__private const any_float*)a1)[i];" in lines
    )
    assert "if (!*(__private const uchar*)a3) break;" in lines


def test_a_copy_to_private_memory_takes_the_part_of_its_iteration():
    copy = Kernel("copy", m.CopyBody(1, 16384), (Argument("input", "uint", bytes=4), Argument("output", "uint")), 1)
    call = m.KernelCall(0, (0, 1), ((0, m.IterationOffset(4)),))
    kernel = Kernel("merged", m.MergedBody((m.SectionBody(1, (call,), True),), 3), (INPUT, OUTPUT), 1, (copy,))
    assert (
        "for (int i = 0; i < (int)(4 / sizeof(int)); ++i) ((__private any_int*)a1)[i] = "
        "((__global const any_int*)((__global const uchar*)a0 + iteration * 4))[i];"
        in body_text(kernel, [""], {1: "int"})
    )


def test_the_body_of_a_work_groups_loop_begins_with_a_barrier():
    """The first one after a condition that may end the loop: see codegen/primitives.py."""
    part = replace(PART, items=1, body="    a1[0] = a0[0];\n")
    calls, state = (m.KernelCall(0, (0, 1)),), m.ResumeState(2, 3)
    counted = m.CountedLoopBody(5, calls, state, iteration_ns=70, limit_ns=1000)
    ended = m.WhileLoopBody(calls, 2, calls, 3, iteration_ns=70, limit_ns=1000)
    barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);"
    for body, after in ((counted, "return;"), (ended, "spent += 70) {"), (ended, "break;")):
        kernel = Kernel("loop", body, (INPUT, OUTPUT), 256, (part,), work_group=256)
        lines = [line.strip() for line in body_text(kernel, ["f"]).splitlines() if line.strip() != "}"]
        (place,) = (n for n, line in enumerate(lines) if line.endswith(after))
        assert lines[place + 1 : place + 3] == [barrier, "if (item == 0) {"], after
