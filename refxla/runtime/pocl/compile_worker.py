"""A process that compiles programs with PoCL into the directory of another process.

PoCL compiles one kernel at a time, whatever the number of threads. When a second process compiles with the same
POCL_CACHE_DIR, device and options, the first one can continue from its files.

This file is run as a script by `compile_workers.py`, and imports next to nothing, to start in a few hundredths of a
second:

    python -I -S compile_worker.py LIBRARY [OFFSET NAME]

LIBRARY is the path of an OpenCL loader; OFFSET and NAME are set in PoCL's devices (processor_name.py).

Each line of its input is a JSON object: number (of the device among PoCL's), source, options, functions, sizes. For
each, it builds the program, launches each function once per size with a `which` that no case has, and answers with a
line: "done", or the error. It ends at the end of its input, or when no line comes for IDLE_S seconds.
"""

import ctypes
import json
import select
import sys
from ctypes import byref, c_char_p, c_int32, c_size_t, c_uint32, c_void_p

IDLE_S = 30.0
_PLATFORM_NAME, _KERNEL_NUM_ARGS, _DEVICE_TYPE_ALL = 0x0902, 0x1191, 0xFFFFFFFF


class Failed(Exception):
    """An error, as one line."""


class OpenCL:
    """The few OpenCL functions that are needed, with their status checked."""

    def __init__(self, library: str) -> None:
        self.library = ctypes.CDLL(library)

    def call(self, name: str, *arguments: object) -> None:
        """A function that returns a status."""
        function = getattr(self.library, name)
        function.restype = c_int32
        self.check(name, function(*arguments))

    def make(self, name: str, *arguments: object) -> c_void_p:
        """A function that returns an object, and a status through its last argument."""
        function = getattr(self.library, name)
        function.restype = c_void_p
        status = c_int32(0)
        result = function(*arguments, byref(status))
        self.check(name, status.value)
        return c_void_p(result)

    @staticmethod
    def check(name: str, status: int) -> None:
        if status != 0:
            raise Failed(f"{name} gives status {status}")


def name_processor(device: int, offset: int, name: str) -> None:
    """Has a PoCL device compile for the processor of this `name` (see processor_name.py). The text is never freed."""
    copy = ctypes.CDLL(None).strdup
    copy.restype = c_void_p
    c_void_p.from_address(device + offset).value = copy(c_char_p(name.encode()))


class Compiler:
    """PoCL's devices, each with a context and a queue once something is compiled for it. `name` is an offset and a name
    for `name_processor`, or empty."""

    def __init__(self, library: str, *name: str) -> None:
        self.cl = OpenCL(library)
        self.devices = self._devices()
        if name:
            for device in self.devices:
                assert device.value is not None  # PoCL has no device at address 0
                name_processor(device.value, int(name[0]), name[1])
        self.opened: dict[int, tuple[c_void_p, c_void_p]] = {}
        self.nothing = ctypes.create_string_buffer(64)

    def _open(self, number: int) -> tuple[c_void_p, c_void_p]:
        """The context and the queue of a device."""
        if number not in self.opened:
            device = self.devices[number]
            context = self.cl.make("clCreateContext", None, c_uint32(1), byref(device), None, None)
            queue = self.cl.make("clCreateCommandQueue", context, device, ctypes.c_uint64(0))
            self.opened[number] = context, queue
        return self.opened[number]

    def _devices(self) -> list[c_void_p]:
        cl, count = self.cl, c_uint32(0)
        cl.call("clGetPlatformIDs", c_uint32(0), None, byref(count))
        platforms = (c_void_p * count.value)()
        cl.call("clGetPlatformIDs", count, platforms, None)
        for platform in map(c_void_p, platforms):
            name = ctypes.create_string_buffer(256)
            cl.call("clGetPlatformInfo", platform, c_uint32(_PLATFORM_NAME), c_size_t(256), name, None)
            if name.value == b"Portable Computing Language":
                every = ctypes.c_uint64(_DEVICE_TYPE_ALL)
                cl.call("clGetDeviceIDs", platform, every, c_uint32(0), None, byref(count))
                devices = (c_void_p * count.value)()
                cl.call("clGetDeviceIDs", platform, every, count, devices, None)
                return [c_void_p(d) for d in devices]
        raise Failed("PoCL is not there")

    def compile(self, number: int, source: str, options: str, functions: list[str], sizes: list[int]) -> None:
        """Builds a program for a device and has its kernels compiled. Raises Failed."""
        cl = self.cl
        context, queue = self._open(number)
        text = (c_char_p * 1)(source.encode())
        program = cl.make("clCreateProgramWithSource", context, c_uint32(1), text, None)
        device = byref(self.devices[number])
        cl.call("clBuildProgram", program, c_uint32(1), device, options.encode(), None, None)
        for function in functions:
            kernel = cl.make("clCreateKernel", program, function.encode())
            count = c_uint32(0)
            cl.call("clGetKernelInfo", kernel, c_uint32(_KERNEL_NUM_ARGS), c_size_t(4), byref(count), None)
            for n, value in ((0, -1), (1, 0)):
                cl.call("clSetKernelArg", kernel, c_uint32(n), c_size_t(4), byref(c_int32(value)))
            for n in range(2, count.value):
                cl.call("clSetKernelArgSVMPointer", kernel, c_uint32(n), self.nothing)
            for size in sizes:
                whole, group = (c_size_t * 1)(size), (c_size_t * 1)(1)
                launch = (queue, kernel, c_uint32(1), None, whole, group, c_uint32(0), None, None)
                cl.call("clEnqueueNDRangeKernel", *launch)
        cl.call("clFinish", queue)


def main(library: str, *name: str) -> None:
    compiler = None
    while select.select([sys.stdin], [], [], IDLE_S)[0] and (line := sys.stdin.readline()):
        try:
            compiler = compiler or Compiler(library, *name)
            compiler.compile(**json.loads(line))
            print("done", flush=True)
        except (Failed, OSError, AttributeError, IndexError) as problem:
            print(f"failed: {problem}".replace("\n", " "), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
