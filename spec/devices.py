"""Programs on several devices: the same module once for each device, in lock-step.

    run_devices(module, args_per_device) -> the value of the entry computation on each device

A module runs on replicas x partitions devices, numbered replica * partitions + partition. Each device is a run of the
interpreter of its own. One of them runs at a time, in the order of their numbers, each until it needs what others have
not given yet: so every run takes the same course. Devices meet at collectives (`Device.exchange`) and hand values over
(`Device.send`, `Device.receive`); if all that have not ended wait, none will ever go on, and that is an error which
names the instructions and the devices. An error on one device ends all.

A program for one device runs on a Device of its own (`Device.alone`): it meets itself.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import Context, copy_context
from dataclasses import dataclass, field
from math import prod
from typing import Any

from . import grammar
from .errors import EvaluationError, InputError, InvalidProgramError, in_file, plural
from .groups import device_pairs, devices_text, member_groups, mode
from .module import Instruction, Module
from .operation import Violation, operations
from .types import Value

MOST_GUESSED = 1024  # devices, when a message says for how many a program seems to be written
ADVICE = (
    "Run it on as many devices: refxla_spec.devices.run_devices(module, arguments of each device, replicas=R, "
    "partitions=P), or `refxla run FILE --device reference --replicas R --partitions P`"
)
STACK = 64 << 20  # bytes of address space for the stack of a device's thread: computations may call each other deep


class Host:
    """What is at the other end of infeed, outfeed, and of sends and receives with is_host_transfer, for one device.

    `infeed` are the values that infeeds take, in order; `outfed` collects what outfeeds give. `sends` are, by channel,
    the values that the host sends, and `received` collects, by channel, what it was sent.
    """

    def __init__(self, infeed: Iterable[Value] = (), sends: dict[int, Iterable[Value]] | None = None) -> None:
        self.infeed: deque[Value] = deque(infeed)
        self.outfed: list[Value] = []
        self.sends: dict[int, deque[Value]] = {channel: deque(values) for channel, values in (sends or {}).items()}
        self.received: dict[int, list[Value]] = {}


def device_counts(module: Module) -> tuple[int, int]:
    """How many replicas, and partitions of each, a module says that it runs on (1 where its header does not say).

    Raises InvalidProgramError for a count that is no number, or less than 1.
    """
    counts = []
    for name in grammar.HEADER_COUNTS:
        text = str(module.attributes.get(name, 1))
        if not grammar.COUNT.fullmatch(text):
            message = f"the header of {module.name} says {name}={text[:40]!r}: it is a number from 1 to 999999999"
            raise in_file(InvalidProgramError(message), module.file)
        counts.append(int(text))
    return counts[0], counts[1]


def misfit(module: Module, replicas: int, partitions: int) -> str | None:
    """Why a valid module cannot run on so many devices, and for how many it seems to be written; None if it can.

    Groups, pairs and shapes of collectives must follow from the number of devices. The verifier cannot know it where
    the header does not say it (`all-gather` without groups gives as many times its operand as there are replicas).
    """
    rules = operations()
    pairs = ((i, rules[i.opcode].check_devices) for i in module.instructions() if i.opcode in rules)
    checked = [(i, check) for i, check in pairs if check is not None]

    def problem(replicas: int, partitions: int) -> str | None:
        for n, (i, check) in enumerate(checked):
            try:
                check(i, replicas, partitions)
            except Violation as violation:
                checked.insert(0, checked.pop(n))  # what refuses one number is likely to refuse the next
                return f"{i.name}: {i.opcode} does not fit {devices_text(replicas, partitions)}: {violation}"
        return None

    reason = problem(replicas, partitions)
    if reason is None:
        return None
    fits = next((pair for pair in _by_size() if problem(*pair) is None), None)
    if fits is None:
        return f"{reason}; nor does the program fit any other number of devices up to {MOST_GUESSED}"
    swapped = fits[0] != fits[1] and problem(fits[1], fits[0]) is None
    guess = (
        f"{fits[0] * fits[1]} devices" if swapped else devices_text(*fits)
    )  # where replicas and partitions do as well
    return f"{reason}. The program seems to be written for {guess}"


def _by_size() -> Iterator[tuple[int, int]]:
    """Numbers of replicas and partitions, fewer devices first; of as many all replicas first, then all partitions."""
    for count in range(1, MOST_GUESSED + 1):
        divisors = [n for n in range(1, count + 1) if count % n == 0]
        yield from sorted(((count // n, n) for n in divisors), key=lambda pair: min(pair))


def run_devices(
    module: Module,
    args_per_device: Sequence[Sequence[Value]],
    *,
    replicas: int | None = None,
    partitions: int | None = None,
    hosts: Sequence[Host] | None = None,
    trace: Callable[[Device, Instruction, Value], Any] | None = None,
) -> list[Value]:
    """The value of the entry computation on each device, given the arguments of each.

    `replicas` and `partitions` say how many there are where the module's header does not, or otherwise. `hosts` are the
    other end of infeeds and the like, one for each device. `trace` is called for each instruction that a device runs.

    Raises InputError where the arguments or the number of devices do not fit, and as `interpreter.run`;
    EvaluationError, too, where devices wait for each other for ever.
    """
    from .interpreter import Interpreter, check_arguments  # here, since the interpreter is defined in terms of devices

    stated = device_counts(module)
    replicas, partitions = replicas or stated[0], partitions or stated[1]
    count = replicas * partitions
    for name, per_device in (("arguments", args_per_device), ("hosts", hosts)):
        if per_device is not None and len(per_device) != count:
            given, meant = plural(len(per_device), "device"), devices_text(replicas, partitions)
            raise InputError(f"{name} for {given}, and the program runs on {meant}")
    arguments = []
    for n, args in enumerate(args_per_device):
        try:
            arguments.append(check_arguments(module.entry, args))
        except InputError as problem:
            raise InputError(f"device {n}: {problem}") from None
    turns = Turns(count) if count > 1 else None
    world = World(module, replicas, partitions, turns or Alone())
    devices = [Device(world, n, hosts[n] if hosts else Host()) for n in range(count)]

    def program(device: Device) -> Callable[[], Value]:
        traced = None if trace is None else lambda i, value: trace(device, i, value)
        return lambda: Interpreter(traced, device).run(module.entry, *arguments[device.number])

    if turns is None:
        return [program(devices[0])()]
    return turns.run([program(d) for d in devices])


@dataclass
class World:
    """What the devices of one run share."""

    module: Module | None
    replicas: int
    partitions: int
    turns: Turns | Alone
    meetings: dict[Any, dict[int, Value]] = field(default_factory=dict)  # those that are under way
    mail: dict[Any, list[Value]] = field(default_factory=dict)  # sent from one device to another, in order
    requests: dict[Any, int] = field(default_factory=dict)  # how many of these have been asked for
    groups: dict[Instruction, list[tuple[int, ...]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises InputError for a module that does not fit the number of devices."""
        problem = None if self.module is None else misfit(self.module, self.replicas, self.partitions)
        if problem is not None:
            raise InputError(f"{problem}. {ADVICE}")


class Device:
    """One device of a run, as the operations see it."""

    def __init__(self, world: World, number: int, host: Host) -> None:
        self.world, self.number, self.host = world, number, host
        self.replica, self.partition = divmod(number, world.partitions)
        self._transfers: list[Callable[[], Value]] = []

    @classmethod
    def alone(cls, module: Module | None = None, host: Host | None = None) -> Device:
        """The only device of a run. Raises InputError for a module that is written for several."""
        if module is not None and prod(counts := device_counts(module)) > 1:
            raise InputError(f"{module.name} is a program for {devices_text(*counts)}, not for one. {ADVICE}")
        return cls(World(module, 1, 1, Alone()), 0, host or Host())

    def group(self, instruction: Instruction) -> tuple[int, ...]:
        """The members of this device's group in a collective, as numbers of devices; () if it is in none.

        Raises EvaluationError if the groups name devices that are not there.
        """
        world = self.world
        groups = world.groups.get(instruction)
        if groups is None:
            groups = world.groups[instruction] = member_groups(instruction, world.replicas, world.partitions)
        return next((g for g in groups if self.number in g), ())

    def exchange(self, instruction: Instruction, value: Value) -> list[Value]:
        """The values that all members of this device's group bring to a collective, in the group's order.

        Waits until each has. Raises EvaluationError for a device that is in no group.
        """
        group = self.group(instruction)
        if not group:
            raise EvaluationError(
                f"{instruction.name}: device {self.number} is in none of the groups {instruction.replica_groups}, and "
                f"{instruction.opcode} gives it nothing; put every device into one"
            )
        return self.meet(instruction, group, value)

    def meet(self, instruction: Instruction, group: tuple[int, ...], value: Value) -> list[Value]:
        """The values that the devices of a group bring to an instruction, in the group's order; waits for each."""
        meetings, key = self.world.meetings, (instruction, group)
        meeting = meetings.setdefault(key, {})
        meeting[self.number] = value
        if len(meeting) == len(group):
            del meetings[key]  # the next to come begin another one
        self.world.turns.wait(
            self.number,
            lambda: len(meeting) == len(group),
            lambda: f"in {instruction.opcode} {instruction.name} for {_numbers(n for n in group if n not in meeting)}",
        )
        return [meeting[n] for n in group]

    def pairs(self, instruction: Instruction, pairs: tuple[tuple[int, ...], ...]) -> list[tuple[int, int]]:
        """Pairs of replicas or partitions as pairs of numbers of devices. Raises EvaluationError for strangers."""
        return device_pairs(instruction, pairs, self.world.replicas, self.world.partitions)

    # -- transfers from one device to another: begun, and later finished by number

    def send(self, instruction: Instruction, pairs: Sequence[tuple[int, int]], value: Value) -> int:
        """Begin to send a value to this device's target, if it has one; gives the transfer's number."""
        world = self.world
        mine = [(_channel(instruction), *pair) for pair in pairs if pair[0] == self.number]
        places = []
        for key in mine:
            world.mail.setdefault(key, []).append(value)
            places.append((key, len(world.mail[key])))

        def finish() -> None:
            world.turns.wait(
                self.number,
                lambda: all(world.requests.get(key, 0) >= place for key, place in places),
                lambda: f"in {instruction.opcode} {instruction.name} for {_numbers(k[-1] for k in mine)} to receive",
            )

        return self._begin(finish)

    def receive(self, instruction: Instruction, pairs: Sequence[tuple[int, int]], nothing: Value) -> int:
        """Begin to receive from this device's source; gives the transfer's number. Without a source the value received
        is `nothing`."""
        world = self.world
        mine = [(_channel(instruction), *pair) for pair in pairs if pair[1] == self.number]
        if not mine:
            return self._begin(lambda: nothing)
        key = mine[0]
        place = world.requests[key] = world.requests.get(key, 0) + 1

        def finish() -> Value:
            world.turns.wait(
                self.number,
                lambda: len(world.mail.get(key, ())) >= place,
                lambda: f"in {instruction.opcode} {instruction.name} for device {key[-2]} to send",
            )
            return world.mail[key][place - 1]

        return self._begin(finish)

    def _begin(self, finish: Callable[[], Value]) -> int:
        self._transfers.append(finish)
        return len(self._transfers) - 1

    def done(self, value: Value = None) -> int:
        """A transfer that has come to its end already; gives its number."""
        return self._begin(lambda: value)

    def finish(self, instruction: Instruction, number: int) -> Value:
        """Wait for the end of a transfer; gives what was received, or None. EvaluationError for an unknown number."""
        if not 0 <= number < len(self._transfers):
            raise EvaluationError(f"{instruction.name}: no send or recv of this run has the number {number}")
        return self._transfers[number]()


def _channel(instruction: Instruction) -> tuple[int, str]:
    """What a send and a recv must have in common to meet."""
    return instruction.attributes.get("channel_id") or 0, mode(instruction)


def _numbers(devices: Iterable[int]) -> str:
    listed = sorted(set(devices))
    shown = ", ".join(map(str, listed[:8])) + (", ..." if len(listed) > 8 else "")
    return f"device{'s' * (len(listed) != 1)} {shown}"


class Alone:
    """The turns of one device: there is nobody to wait for."""

    def wait(self, device: int, ready: Callable[[], bool], why: Callable[[], str]) -> None:
        """Raise EvaluationError unless `ready()`."""
        if not ready():
            raise EvaluationError(_stuck({device: why()}, []))


def _stuck(waiting: dict[int, str], ended: list[int]) -> str:
    listed = [f"device {n} waits {why}" for n, why in sorted(waiting.items())[:8]]
    more = [f"and {len(waiting) - 8} more wait"] if len(waiting) > 8 else []
    over = [f"{_numbers(ended)} ended without it"] if ended else []
    return (
        f"the devices wait for each other for ever: {'; '.join(listed + more + over)}. "
        "All members of a group must come to each collective equally often and in the same order"
    )


class _Ended(BaseException):
    """Ends the thread of a device because another one failed. No `except Exception` of an operation catches it."""


class Turns:
    """Lets one of several programs run at a time, each until it waits or ends; then the next one that can go on."""

    def __init__(self, count: int) -> None:
        self._go = [threading.Semaphore(0) for _ in range(count)]
        self._waiting: dict[int, tuple[Callable[[], bool], Callable[[], str]]] = {}
        self._ended: list[int] = []
        self._over = threading.Event()
        self._problem: BaseException | None = None
        self._results: list[Value] = [None] * count

    def run(self, programs: Sequence[Callable[[], Value]]) -> list[Value]:
        """The results of the programs, or the error of the first that fails."""
        before = threading.stack_size(STACK)
        try:
            threads = [
                threading.Thread(target=self._thread, args=(n, p, copy_context()), daemon=True)
                for n, p in enumerate(programs)
            ]
            for thread in threads:
                thread.start()
        finally:
            threading.stack_size(before)
        try:
            self._go[0].release()
            self._over.wait()
        finally:  # whatever ended the wait: no thread stays behind
            self._fail(_Ended())
        for thread in threads:
            thread.join()
        if self._problem is not None and not isinstance(self._problem, _Ended):
            raise self._problem
        return self._results

    def wait(self, device: int, ready: Callable[[], bool], why: Callable[[], str]) -> None:
        """Let others run until `ready()`; `why` says what for. Raises EvaluationError if nobody can go on."""
        if ready():
            return
        self._waiting[device] = ready, why
        self._pass_on(device)
        self._go[device].acquire()
        if self._over.is_set():
            raise _Ended
        del self._waiting[device]

    def _thread(self, number: int, program: Callable[[], Value], context: Context) -> None:
        self._go[number].acquire()
        if self._over.is_set():
            return
        try:
            self._results[number] = context.run(program)
            self._ended.append(number)
            self._pass_on(number)
        except BaseException as problem:  # handed to the thread that called `run`
            self._fail(problem)

    def _pass_on(self, device: int) -> None:
        """Give the turn to the next device, in the order of the numbers, that can go on."""
        count = len(self._go)
        for n in ((device + k) % count for k in range(1, count + 1)):
            if n not in self._ended and (n not in self._waiting or self._waiting[n][0]()):
                self._go[n].release()
                return
        if self._waiting:
            reasons = {n: why() for n, (_, why) in self._waiting.items()}
            raise EvaluationError(_stuck(reasons, self._ended))
        self._over.set()

    def _fail(self, problem: BaseException) -> None:
        """End everything; the first problem stays."""
        self._problem = self._problem or problem
        self._over.set()
        for go in self._go:
            go.release()
