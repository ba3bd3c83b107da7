"""Loops in the assembly of a function: basic blocks, natural loops, the hot path."""
import functools
import re


def function_lines(assembly, name):
    first = assembly.index(f"{name}:") + 1
    last = next(i for i in range(first, len(assembly)) if assembly[i].lstrip().startswith(".size"))
    # Of negative bytes g++ writes the whole word, which LLVM's assembler does not take.
    code = [line.strip() for line in assembly[first:last] if re.match(r"\s+[a-z]|\.L\w+:", line)]
    return [re.sub(r"0xf{14}([0-9a-f]{2})$", r"0x\1", line) for line in code]


class Function:
    """Basic blocks of a function, their successors, and the natural loops that its backward branches close."""

    def __init__(self, lines):
        self.blocks, self.successors, labels, ends = [[]], [], {}, []
        for line in lines:
            if line.endswith(":"):
                if self.blocks[-1]:
                    self.blocks.append([])
                labels[line[:-1]] = len(self.blocks) - 1
                continue
            self.blocks[-1].append(line)
            if is_branch(line):
                self.blocks.append([])
        for i, block in enumerate(self.blocks):
            last = block[-1] if block else ""
            target = re.search(r"(\.L\w+)$", last) if is_branch(last) else None
            follows = not re.match(r"(b|br|ret)\s|ret$", last) and i + 1 < len(self.blocks)
            self.successors.append(([i + 1] if follows else []) + ([labels[target[1]]] if target else []))
        self.loops = [(header, latch) for latch, nexts in enumerate(self.successors) for header in nexts
                      if self._dominates(header, latch)]

    def _dominates(self, header, block):
        """Nothing reaches the block but through the header: the test of a natural loop's back edge."""
        seen, todo = {header}, [0]
        while todo:
            at = todo.pop()
            if at not in seen:
                seen.add(at)
                todo += self.successors[at]
        return header == 0 or block == header or block not in seen

    def body(self, loop):
        header, latch = loop
        inside, todo = {header}, [latch]
        while todo:
            at = todo.pop()
            if at not in inside:
                inside.add(at)
                todo += [i for i, nexts in enumerate(self.successors) if at in nexts]
        return inside

    def paths(self, loop):
        """Ways through one round of the loop, as lists of blocks, each block once."""
        header, latch = loop
        inside, found, todo = self.body(loop), [], [[header]]
        while todo:
            path = todo.pop()
            if path[-1] == latch:
                found.append(path)
            todo += [[*path, n] for n in self.successors[path[-1]] if n in inside and n not in path]
        return found

    def ways_out(self):
        """Ways from the entry to a return, each block once."""
        found, todo = [], [[0]]
        while todo:
            path = todo.pop()
            nexts = [n for n in self.successors[path[-1]] if n not in path]
            todo += [[*path, n] for n in nexts]
            if self.blocks[path[-1]] and self.blocks[path[-1]][-1].startswith("ret"):
                found.append(path)
        return found

    def innermost(self):
        bodies = [self.body(loop) for loop in self.loops]
        return [loop for loop, body in zip(self.loops, bodies) if not any(other < body for other in bodies)]

    def code(self, path):
        return [line for block in path for line in self.blocks[block]]


def is_branch(line):
    return re.match(r"(b|b\.\w+|b(eq|ne|cs|hs|cc|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le|al)|cbn?z|tbn?z|ret|br)(\s|$)", line) is not None


def multiplies(lines, macs):
    return sum(macs.get(line.split()[0], 0) for line in lines)


def hot_path(lines, macs, longest):
    function = Function(lines)
    loops = [function.paths(loop) for loop in function.innermost()]
    most = max(multiplies(function.code(path), macs) for paths in loops for path in paths)
    paths = [path for found in loops for path in found if multiplies(function.code(path), macs) == most]
    return function.code((max if longest else min)(paths, key=lambda path: (len(function.code(path)), path)))


def block_path(lines, macs, total, longest):
    """A round of the loop over blocks of weights, the widest around the loop over chunks, which is repeated until it has made `total`
    of `macs`: what a block begins and ends with runs once, however few rounds its chunks take."""
    function = Function(lines)
    pick = functools.partial(max if longest else min, key=lambda path: (len(function.code(path)), path))
    inner = max(function.innermost(), key=lambda loop: max(multiplies(function.code(path), macs) for path in function.paths(loop)))
    round_, body = pick(function.paths(inner)), function.body(inner)
    blocks = max((loop for loop in function.loops if body < function.body(loop)), key=lambda loop: len(function.body(loop)))
    way = pick([path for path in function.paths(blocks) if find(path, round_) >= 0])
    return function.code(repeated(way, round_, total // multiplies(function.code(round_), macs)))


def once_through(lines, elements):
    """A function that makes `elements` results, or one round of its outer loop if that does, as straight code: the shortest
    way, since the compiler's checks for operands that overlap lead to longer ones and never hold. An inner loop is repeated
    until it has stored its results; the shortest round of it counts."""
    function = Function(lines)
    inner = function.innermost()
    outer = [loop for loop in function.loops if inner and function.body(inner[0]) < function.body(loop)]
    ways = function.paths(outer[0]) if outer else function.ways_out()
    if inner:
        round_ = min(function.paths(inner[0]), key=lambda path: (len(function.code(path)), path))
        rounds = elements // max(1, stored_floats(function.code(round_)))
        ways = [repeated(way, round_, rounds) for way in ways if not function.body(inner[0]) & set(way) or find(way, round_) >= 0]
    return function.code(min(ways, key=lambda path: (len(function.code(path)), path)))


def find(path, part):
    return next((i for i in range(len(path)) if path[i:i + len(part)] == part), -1)


def repeated(path, part, times):
    at = find(path, part)
    return path if at < 0 else path[:at] + times * part + path[at + len(part):]


def stored_floats(lines):
    """Floats that the lines store outside the stack."""
    sizes = {"s": 1, "w": 1, "d": 2, "x": 2, "q": 4}
    return sum(sizes[register[0]] for line in lines if line.startswith("st") and "[sp" not in line
               for register in re.findall(r"\b([swdxq]\d+)\b", line.split("[")[0]))


def carried(lines):
    """Whether a slot of the stack is loaded, and stored after that."""
    loaded = set()
    for line in lines:
        slot = re.search(r"\[sp(, #?\d+)?\]", line)
        if slot and line.startswith("ld"):
            loaded.add(slot[0])
        elif slot and line.startswith("st") and slot[0] in loaded:
            return True
    return False
