"""The instructions of a computation in groups that become kernels: what each group reads and writes, which values are
aliases of others, and which group reads a value last."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from refxla_spec.module import Computation, Instruction

from .._core.fusion import fusion_groups
from .._core.graph import Graph, NodeClass, Relation
from ..analysis.conditional_analysis import root_leaves
from ..analysis.in_place_updates import reads_where_it_writes
from ..analysis.while_loop_analysis import counter_of, covers, state_values
from ..ir import plan as p
from .fusion_group import FusionGroup, Refusal, UnfusedEdge
from .scheduling_options import SchedulingOptions

TABLE = 1 << 16  # iterations of a loop up to which its counter is read from a table


class GroupedComputation:
    """A computation whose instructions are in groups. `second`: of a body that is two iterations of a loop, the
    instructions of the second. `in_loop`: it is the condition or the body of a loop, or a branch in one."""

    def __init__(
        self, computation: Computation, options: SchedulingOptions, second: Collection[Instruction], in_loop: bool
    ) -> None:
        self.in_loop = in_loop
        self.graph = Graph(computation, second, options.costs.caches, options.computes_in_pieces)
        groups, unfused = fusion_groups(self.graph, options.costs, options.fusion, options.shares_launches, in_loop)
        self.groups: list[FusionGroup] = groups
        self.roots = root_leaves(computation)
        self.names = [self._name(n) for n in range(len(self.groups))]
        self.refusals = tuple(self._refusals(unfused))
        self._read: dict[int, list[tuple[Instruction, bool]]] = {}  # what `operands` gave
        self.overwritten = self._overwritten()
        self._find_uses()

    def _find_uses(self) -> None:
        instructions = self.graph.instructions
        # The number of the group that writes each output.
        self.makers = {i: n for n, g in enumerate(self.groups) for m in g.outputs for i in instructions[m]}
        self.aliases = self._aliases()
        self.last_use = self._last_uses()

    def regroup(self, groups: list[FusionGroup], names: list[str]) -> None:
        """Replaces the groups, with a name for each."""
        self.groups, self.names = groups, names
        self._find_uses()

    def _name(self, n: int) -> str:
        group = self.groups[n]
        first = self.graph.instructions[group.heroes[-1] if group.heroes else group.outputs[0]][0]
        return first.name if group.kind == "control" else f"{group.kind}.{first.name}"

    def _refusals(self, unfused: list[UnfusedEdge]) -> Iterator[Refusal]:
        """Why each value that one kernel writes for another is not fused into that. The scheduler never considers
        values in the epilogue of a hero: they are in the kernel of the hero, which would have to be recomputed with
        them."""
        reported = set()
        for edge in unfused:
            reported.add((edge.producer, edge.user))
            value = self.graph.instructions[edge.producer][0]
            yield Refusal(value, self.names[edge.user], edge.reason, edge.unfused, edge.fused)
        number = {i: n for n, instructions in enumerate(self.graph.instructions) for i in instructions}
        behind = {n: g.heroes for g in self.groups if g.kind != "control" for n in g.outputs if n not in g.heroes}
        for user, group in enumerate(self.groups):
            for i in (i for n in group.members for i in self.graph.instructions[n]):
                for producer in (number[o] for o in i.operands if o in number):
                    if behind.get(producer) and producer not in group.members and (producer, user) not in reported:
                        reported.add((producer, user))
                        hero = self.graph.instructions[behind[producer][-1]][0]
                        reason = f"it follows {hero.name}, which has an emitter of its own, and is in that kernel"
                        yield Refusal(self.graph.instructions[producer][0], self.names[user], reason, 0, 0)

    def _overwritten(self) -> dict[Instruction, set[int]]:
        """For each loop, the elements of its state whose initial values nobody reads."""
        by_loop = {}
        for group in self.groups:
            i = self.graph.instructions[group.outputs[0]][0]
            counter = counter_of(i) if i.opcode == "while" else None
            if counter is not None and 0 < counter.trip_count <= TABLE:
                by_loop[i] = {k for k in range(len(i.operands[0].operands)) if covers(i, counter, k)}
        return by_loop

    def _aliases(self) -> dict[Instruction, Instruction]:
        """Values that are aliases: a reshape or copy that is a group by itself, and results of a loop that it does not
        change."""
        aliases: dict[Instruction, Instruction] = {}
        for group in self.groups:
            i, *elements = self.graph.instructions[group.outputs[0]]
            alone = group.members == group.outputs and len(group.members) == 1
            if group.kind == "loop" and alone and i.opcode in ("reshape", "copy"):
                if not self.is_inline(i.operands[0]):
                    aliases[i] = i.operands[0]
            elif i.opcode == "while":
                inside, roots = state_values(i.body), root_leaves(i.body)
                invariants = (e for e in elements if inside.get(e.index) is roots[e.index])
                aliases.update({e: i.operands[0].operands[e.index] for e in invariants})
        return aliases

    def base(self, i: Instruction) -> Instruction:
        while i in self.aliases:
            i = self.aliases[i]
        return i

    def _last_uses(self) -> dict[Instruction, int]:
        """For each value in memory, the number of the last group that reads it; roots are read after all groups."""
        last: dict[Instruction, int] = {}
        for n, group in enumerate(self.groups):
            for i in self.inputs(group):
                last[self.base(i)] = n
        for i in self.roots:
            last[self.base(i)] = len(self.groups)
        return last

    def inputs(self, group: FusionGroup) -> list[Instruction]:
        """The values a group reads from memory, in order of first use."""
        inside = {i for m in group.members for i in self.graph.instructions[m]}
        values: dict[Instruction, None] = {}
        for m in group.members:
            for leaf, in_memory in self.operands(m):
                if leaf not in inside and (in_memory or not self.is_inline(leaf)):
                    values[leaf] = None
        return list(values)

    def operands(self, node: int) -> list[tuple[Instruction, bool]]:
        """The array values a node reads, and whether it must find them in memory."""
        if node not in self._read:
            self._read[node] = self._operands(node)
        return self._read[node]

    def _operands(self, node: int) -> list[tuple[Instruction, bool]]:
        i, first = self.graph.instructions[node][0], self.graph.first[node]
        values = [leaf for o in i.operands for leaf in (o.operands if o.opcode == "tuple" else (o,))]
        unread = self.overwritten.get(i, ())
        return [
            (v, self.graph.relation[first + k] == Relation.R_MEMORY) for k, v in enumerate(values) if k not in unread
        ]

    def is_inline(self, i: Instruction) -> bool:
        """Whether a value is recomputed wherever it is used (a scalar or splat constant, an iota)."""
        return bool(self.graph.group[self.graph.node_of[i]] == NodeClass.N_INLINE)

    def is_read(self, nodes: Sequence[int]) -> bool:
        """Whether anybody reads what a group writes."""
        return any(self.base(i) in self.last_use for m in nodes for i in self.graph.instructions[m])

    def elements(self, i: Instruction) -> list[Instruction]:
        """The get-tuple-elements of an instruction that anybody reads."""
        instructions: list[Instruction] = self.graph.instructions[self.graph.node_of[i]][1:]
        return instructions

    def fusion(
        self, n: int, is_invariant: Callable[[Instruction], bool] = lambda _: False, trip_count: int = 1
    ) -> p.Fusion:
        """Group number n as the fusion that is emitted. `is_invariant` says whether an input is invariant in the
        enclosing loop. `trip_count` is the number of tiles in a tiled fusion."""
        group = self.groups[n]
        inside: dict[Instruction, None] = {}
        for m in group.members:
            for o, in_memory in self.operands(m):
                if self.is_inline(o) and not in_memory:
                    inside.update(dict.fromkeys(_with_operands(o)))
            inside.update(dict.fromkeys(self.graph.instructions[m]))
        written = []
        for m in group.outputs:
            for i in self.graph.instructions[m]:
                if i.shape.is_array and i in self.last_use:
                    written.append(i)
        hero = self.graph.instructions[group.heroes[0]][0] if group.heroes else None
        if hero is not None and group.kind == "scatter" and hero.shape.is_tuple:
            # it updates all its operands, even if a result is not read
            by_index = {i.index: i for i in written}
            for k, shape in enumerate(hero.shape.elements):
                if k not in by_index:
                    by_index[k] = Instruction(f"{hero.name}.{k}", "get-tuple-element", shape, [hero], {"index": k})
                    inside[by_index[k]] = None
            written = list(by_index.values())
        inputs = tuple(dict.fromkeys(self.inputs(group)))
        invariants = tuple(i for i in inputs if is_invariant(i))
        return p.Fusion(
            self.names[n], group.kind, tuple(inside), inputs, tuple(written), hero, invariants, trip_count, self.in_loop
        )

    def is_made_in_place(self, n: int) -> bool:
        """Whether the producer of a group's outputs determines their blocks: an update or scatter in place, control
        flow."""
        kind = self.groups[n].kind
        if kind == "update":
            return self.updates_what_it_reads(self.fusion(n))
        return kind in ("control", "scatter")

    def in_place(self, group: FusionGroup, value: Instruction) -> bool:
        """Whether a loop or product reads a value, and all its aliases, only at the index that it writes."""
        names = [i for i in self.inputs(group) if self.base(i) is self.base(value)]
        return all(self.graph.node_of[i] in group.pointwise_inputs for i in names)

    def replaces(self, group: FusionGroup, result: Instruction, old: Instruction) -> bool:
        """Whether a kernel may write a result over an input. If there are several outputs, the result must depend on
        the input's element, so that it cannot be stored before that has been read."""
        if not self.in_place(group, old):
            return False
        if len(group.outputs) == 1:
            return True
        inside = {i for m in group.members for i in self.graph.instructions[m]}
        waiting, visited = [result], {result}
        while waiting:
            i = waiting.pop()
            if self.base(i) is self.base(old):
                return True
            more = [o for o in i.operands if i in inside and o not in visited]
            visited.update(more)
            waiting += more
        return False

    def updates_what_it_reads(self, fusion: p.Fusion) -> bool:
        """Whether a kernel that updates a slice reads only the elements of the array that it writes."""
        hero = fusion.hero
        if hero is None or hero.opcode != "dynamic-update-slice" or len(fusion.outputs) > 1:
            return False
        base = self.base(hero.operands[0])
        return reads_where_it_writes(hero, set(fusion.instructions), lambda i: self.base(i) is base)


def _with_operands(i: Instruction) -> list[Instruction]:
    """An inline value with its operands: a broadcast constant with its constant."""
    return [x for o in i.operands for x in _with_operands(o)] + [i]
