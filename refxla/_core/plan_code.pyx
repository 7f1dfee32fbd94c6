"""The steps of a plan as code for a machine with twelve instructions, which the executor (executor.pyx) runs.

The machine's only registers are the program counter, the table of buffer addresses, the current iteration of each
counted loop, and, from number n on, that of a predicated loop and the one in which its pred is read next:

    LAUNCH step                     enqueue a kernel
    COPY source target              enqueue a copy from buffer to buffer
    CALL n                          wait, then call a function of the host
    LIBRARY n                       wait, then call a function of a library
    JUMP to
    UNLESS buffer to                wait, then jump where the pred in a buffer is false
    BEGIN n                         begin a loop whose body does nothing once a pred is false
    POLL n reads launches buffer to the same as UNLESS in some iterations of it, of so many launches; in others, go on
    SWITCH buffer kind n to...      wait, then jump by a pred (kind 0) or an s32 (kind 1)
    REPEAT n trips counter table to begin iteration 0 of counted loop n, or jump if it has none
    NEXT n trips counter table to   begin the next iteration and jump, or go on after the last one
    END

Each operand is a number: of a step, a buffer, a loop, or a place in the code.
"""

from refxla.ir import plan as plans

STEPS = {LAUNCH: "kernel", COPY: "copy", CALL: "host function", LIBRARY: "library"}  # in a traced call


cdef class PlanCode:
    """The code of a plan: `code` has its numbers. `launches`, `host_calls` and `library_calls` are the steps that these
    refer to, and there are `repeats` counted loops."""

    def __init__(self, plan):
        self.plan = plan
        self.code = []
        self.launches = []
        self.host_calls = []
        self.library_calls = []
        self.repeats = 0
        self.append(plan.steps)
        self.code.append(END)

    def append(self, steps):
        """Appends the code of steps. Raises ValueError for a copy between buffers of different sizes, TypeError for
        what is no step."""
        code = self.code
        for step in steps:
            if isinstance(step, plans.Launch):
                if self.plan.kernels[step.kernel].items > 0:
                    code += [LAUNCH, len(self.launches)]
                    self.launches.append(step)
            elif isinstance(step, plans.Copy):
                size = self.plan.buffers[step.source].bytes
                if size != self.plan.buffers[step.target].bytes:
                    raise ValueError(f"a copy from b{step.source} to b{step.target}, which are of different sizes")
                if size > 0:
                    code += [COPY, step.source, step.target]
            elif isinstance(step, plans.HostCall):
                code += [CALL, len(self.host_calls)]
                self.host_calls.append(step)
            elif isinstance(step, plans.LibraryCall):
                if step.items > 0:
                    code += [LIBRARY, len(self.library_calls)]
                    self.library_calls.append(step)
            elif isinstance(step, plans.Loop):
                number = self.repeats
                if step.is_predicated:
                    self.repeats += 2
                    code += [BEGIN, number]
                start = len(code)
                self.append(step.condition)
                if step.is_predicated:
                    launches = max(1, plans.launch_count((*step.condition, *step.body)))
                    code += [POLL, number, plans.READ_LAUNCHES, launches, step.predicate, None]
                else:
                    code += [UNLESS, step.predicate, None]
                hole = len(code) - 1
                self.append(step.body)
                code += [JUMP, start]
                code[hole] = len(code)
            elif isinstance(step, plans.Repeat):
                counter = (-1, -1) if step.counter is None else (step.counter, step.table)
                counted = [self.repeats, step.trip_count, *counter]
                self.repeats += 1
                code += [REPEAT, *counted, None]
                start = len(code)
                self.append(step.body)
                code += [NEXT, *counted, start]
                code[start - 1] = len(code)
            elif isinstance(step, plans.Branch):
                kind = 0 if self.plan.buffers[step.index].shape.element_type.kind == "pred" else 1
                count = len(step.branches)
                code += [SWITCH, step.index, kind, count] + [None] * count
                holes = len(code) - count
                ends = []
                for n, branch in enumerate(step.branches):
                    code[holes + n] = len(code)
                    self.append(branch)
                    code += [JUMP, None]
                    ends.append(len(code) - 1)
                for end in ends:
                    code[end] = len(code)
            else:
                raise TypeError(f"{step!r} is no step of a plan")
