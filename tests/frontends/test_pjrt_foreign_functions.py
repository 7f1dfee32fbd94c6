"""Functions of users' libraries that programs call on refxla: handlers of XLA's FFI, and callbacks in place."""

import shutil
import subprocess
from pathlib import Path

import pytest
from jax_programs import run

jax = pytest.importorskip("jax")

HEAD = """
import ctypes
from functools import partial
from jax.ffi import ffi_call, pycapsule, register_ffi_target
from jax.sharding import AxisType, PartitionSpec as P
LIBRARY = ctypes.CDLL({library!r})
jax.devices()  # types are registered before their handlers once there are devices
for name in "axpy fail attributes bytes is_same later services".split():
    register_ffi_target(name, pycapsule(getattr(LIBRARY, name)))
def shape(*dimensions, dtype=jnp.float32):
    return jax.ShapeDtypeStruct(dimensions, dtype)
def error(function, *arguments):
    try:
        jax.block_until_ready(function(*arguments))
    except jax.errors.JaxRuntimeError as problem:
        return str(problem)
x = jnp.arange(4, dtype=jnp.float32)
def axpy(x, y, a=2.0):
    return ffi_call("axpy", jax.ShapeDtypeStruct(x.shape, x.dtype), vmap_method="broadcast_all")(x, y, a=np.float32(a))
"""


@pytest.fixture(scope="module")
def head(tmp_path_factory):
    """The beginning of a program with the library's functions, which is compiled once."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("needs a C++ compiler")
    library = tmp_path_factory.mktemp("library") / "foreign.so"
    source = Path(__file__).with_name("foreign_functions.cc")
    options = ["-std=c++17", "-O1", "-w", "-shared", "-fPIC", f"-I{jax.ffi.include_dir()}"]
    subprocess.run([compiler, *options, str(source), "-o", str(library)], check=True, timeout=300)
    return HEAD.format(library=str(library))


def program(head, text):
    return head + "\n".join(line.removeprefix("        ") for line in text.splitlines())


def test_calls(head):
    """Under jit and not, with several attributes, in vmap, scan, cond and shard_map, and compiled ahead."""
    run(
        program(
            head,
            """
        assert jax.jit(axpy)(x, x + 1).tolist() == [1, 4, 7, 10] == axpy(x, x + 1).tolist()
        assert jax.jit(axpy, static_argnums=2)(x, x, 5.0).tolist() == [0, 6, 12, 18]
        assert jax.jit(jax.vmap(axpy, (0, None)))(x.reshape(2, 2), x[:2]).tolist() == [[0, 3], [4, 7]]
        assert lax.scan(lambda c, v: (axpy(c, v), c), x[1:2], x[:, None])[0].tolist() == [27]
        assert [lax.cond(p, axpy, lambda x, y: x, x, x)[3] for p in (True, False)] == [9, 3]
        assert jax.jit(axpy).lower(x, x).compile()(x, x).tolist() == [0, 3, 6, 9]
        mesh = jax.make_mesh((4,), ("i",), axis_types=(AxisType.Auto,))
        mapped = jax.shard_map(lambda x: axpy(x, x), mesh=mesh, in_specs=P("i"), out_specs=P("i"), check_vma=False)
        assert jax.jit(mapped)(jnp.arange(8.0)).tolist() == [3.0 * n for n in range(8)]
        values = (jnp.array([True, False]), jnp.ones((2, 0)), jnp.bfloat16(3), jnp.complex64(1 + 2j), jnp.int8(-4))
        same = jax.jit(lambda *v: ffi_call("bytes", [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in v])(*v))(*values)
        assert [(a.dtype, a.tolist()) for a in same] == [(a.dtype, a.tolist()) for a in values]
        attributes = ffi_call("attributes", shape(1))
        given = dict(flag=True, list=np.array([100, 200]), inner={"part": np.float64(0.5)}, text="é")
        assert attributes(**given).tolist() == [20314.5] and attributes().tolist() == [0]
    """,
        ),
        REFXLA_DEVICES="4",
    )


def test_memory(head):
    """An operand's memory can be a result's, and arrays have the order of dimensions that the call asks for."""
    run(
        program(
            head,
            """
        in_place = jax.jit(lambda x: ffi_call("is_same", shape(4), input_output_aliases={0: 0})(x) + x)
        assert in_place(x).tolist() == [0, 2, 4, 6] and x.tolist() == [0, 1, 2, 3]
        assert "different memory" in error(ffi_call("is_same", shape(4)), x)
        m = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
        columns = ffi_call("bytes", shape(2, 3), input_layouts=[(1, 0)])
        assert columns(m).tolist() == m.T.reshape(2, 3).tolist()
        assert ffi_call("bytes", shape(2, 3), input_layouts=[(1, 0)], output_layouts=(1, 0))(m).tolist() == m.tolist()
    """,
        )
    )


def test_what_a_handler_may_call(head):
    """Scratch memory, threads, the device's number; work that goes on after it has returned; state, once for a call."""
    run(
        program(
            head,
            """
        assert ffi_call("services", shape(1))().tolist() == [16]
        assert jax.jit(ffi_call("later", shape(4)))(x).tolist() == [0, 2, 4, 6]
        assert error(ffi_call("later", shape(4)), x - 1) == "INTERNAL: too late"
        LIBRARY.counter_id.restype = LIBRARY.counter_info.restype = ctypes.c_void_p
        def capsule(address):
            return pycapsule(ctypes.c_void_p(address))
        jax.ffi.register_ffi_type(
            "counter", {"type_id": capsule(LIBRARY.counter_id()), "type_info": capsule(LIBRARY.counter_info())}
        )
        register_ffi_target(
            "counter", {"instantiate": pycapsule(LIBRARY.begin_counter), "execute": pycapsule(LIBRARY.count)}
        )
        def count(first):
            return ffi_call("counter", shape(1), has_side_effect=True)(first=np.float32(first))
        from_3, from_7 = (jax.jit(partial(count, first)) for first in (3, 7))
        assert [from_3()[0], from_3()[0], from_7()[0], from_3()[0]] == [3, 4, 7, 5]
    """,
        )
    )


def test_errors(head):
    """A handler's errors keep their code and text; what cannot be called is an error when it is compiled."""
    run(
        program(
            head,
            """
        def fail(code):
            return error(jax.jit(partial(ffi_call("fail", shape(1)), code=code, text="100 %s bad")))
        assert fail(3) == "INVALID_ARGUMENT: 100 %s bad" and fail(9) == "FAILED_PRECONDITION: 100 %s bad"
        assert fail(12) == "UNIMPLEMENTED: 100 %s bad" and fail(13) == "INTERNAL: 100 %s bad"
        assert fail(5) == "INTERNAL: NOT_FOUND: 100 %s bad" and fail(8).startswith("RESOURCE_EXHAUSTED")
        assert "Failed to decode all FFI handler operands" in error(axpy, x.astype(int), x.astype(int))
        assert "Wrong number of attributes" in error(ffi_call("axpy", shape(4)), x, x)
        assert "no code for custom-call target 'nowhere'" in error(ffi_call("nowhere", shape(4)), x)
        register_ffi_target("old", pycapsule(LIBRARY.old_interface), api_version=0)
        old = ffi_call("old", shape(4), custom_call_api_version=1, legacy_backend_config="")
        assert "'old' is of XLA's older interface" in error(old, x)
        stages = {name: pycapsule(LIBRARY.axpy) for name in ("execute", "prepare")}
        register_ffi_target("staged", stages)
        assert "has the stages execute, prepare" in error(ffi_call("staged", shape(4)), x)
        assert "an attribute [1, 2] cannot be passed" in error(partial(ffi_call("attributes", shape(1)), mixed=(1, 2)))
        assert jax.jit(axpy)(x, x).tolist() == [0, 3, 6, 9]
    """,
        )
    )


def test_callbacks_in_place():
    """They read and write memory of the program, with the attributes of JAX's buffers."""
    run("""
        from jax.experimental.buffer_callback import ExecutionStage, buffer_callback
        f32 = jax.ShapeDtypeStruct((2, 3), jnp.float32)
        x = jnp.arange(6, dtype=jnp.float32).reshape(2, 3)
        def twice(context, out, x, *, add):
            assert context.stage == ExecutionStage.EXECUTE
            assert (x.shape, x.dtype, x.ndim, x.writeable) == ((2, 3), np.float32, 2, False) and out["y"].writeable
            assert np.from_dlpack(x).tolist() == np.asarray(x).tolist()
            np.asarray(out["y"])[...] = np.asarray(x) * 2 + np.asarray(add)
        result = jax.jit(buffer_callback(twice, {"y": f32}))(x, add=jnp.float32(1))
        assert result["y"].tolist() == [[1, 3, 5], [7, 9, 11]]
        def in_place(context, out, x):
            assert np.asarray(x).ctypes.data == np.asarray(out).ctypes.data
            np.asarray(out)[0] += 1
        assert buffer_callback(in_place, f32, input_output_aliases={0: 0})(x).tolist() == [[1, 2, 3], [3, 4, 5]]
        assert x.tolist() == [[0, 1, 2], [3, 4, 5]]
        def add(context, out, x, y):
            np.asarray(out)[...] = np.asarray(x) + np.asarray(y)
        f = buffer_callback(add, jax.ShapeDtypeStruct((3,), jnp.float32), vmap_method="sequential")
        assert jax.jit(jax.vmap(f, (0, None)))(x, x[1]).tolist() == (x + x[1]).tolist()
        def error(callback):
            try:
                jax.block_until_ready(jax.jit(buffer_callback(callback, f32))(x))
            except jax.errors.JaxRuntimeError as problem:
                return str(problem)
        assert "must not return any values" in error(lambda context, out, x: 1)
        assert "read-only" in error(lambda context, out, x: np.asarray(x).fill(0))
        assert "XLA FFI GPU context is not available" in error(lambda context, out, x: context.stream)
        called = []
        effect = buffer_callback(lambda context, out: called.append(1), f32, has_side_effect=True)
        jax.jit(lambda: (effect(), 1)[1])()
        assert called == [1]
    """)
